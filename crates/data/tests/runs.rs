//! Runs over random layouts: exactly once, the same for any threads, and resumable anywhere.

mod support;

use gt_data::*;
use proptest::prelude::*;
use support::*;

fn shuffles() -> impl Strategy<Value = Shuffle> {
    prop_oneof![
        Just(Shuffle::Off),
        Just(Shuffle::Full),
        (1usize..12, 1usize..6).prop_map(|(blocks, lanes)| Shuffle::Pool { blocks, lanes }),
    ]
}

fn cuts() -> impl Strategy<Value = Cut> {
    (1usize..12, any::<bool>(), prop::option::of(8usize..60), any::<bool>())
        .prop_map(|(batch_size, drop_last, max_tokens, bucket)| Cut { batch_size, drop_last, max_tokens, bucket })
}

/// Empty files, files of one row, one huge row group.
fn layouts() -> impl Strategy<Value = (Vec<usize>, usize)> {
    let rows = prop_oneof![Just(0usize), Just(1), 2usize..20, Just(150)];
    (prop::collection::vec(rows, 1..7), prop_oneof![Just(1usize), 2usize..9, Just(1000)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_order_does_not_depend_on_threads_prefetch_or_memory(
        (rows, group) in layouts(), shuffle in shuffles(), cut in cuts(), threads in 0usize..8, prefetch in 1usize..9,
        tight: bool, at in 0.0f64..1.0,
    ) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &rows, group);
        let source = open_dir(dir.path());
        let mut one = spec(&source, shuffle, 1);
        one.cut = cut;
        let all = ids(&source, &one);

        let mut seen: Vec<i64> = all.iter().flat_map(|(ids, _)| ids.clone()).collect();
        let total: usize = rows.iter().sum();
        if let Some(batches) = cut.batches(total as u64) {
            prop_assert_eq!(all.len() as u64, batches);
        }
        if cut.drop_last && cut.max_tokens.is_none() {
            prop_assert_eq!(seen.len(), total / cut.batch_size * cut.batch_size);
        } else {
            prop_assert_eq!(seen.len(), total);
        }
        seen.sort();
        seen.dedup();
        prop_assert!(seen.len() >= total - total.min(cut.batch_size));

        let mut other = one.clone();
        other.threads = threads;
        other.prefetch = prefetch;
        if tight {
            other.memory_budget = 500;
        }
        prop_assert_eq!(&ids(&source, &other), &all);

        if !all.is_empty() {
            let stop = (all.len() as f64 * at) as usize;
            let mut rest = other;
            rest.start = all[stop].1;
            prop_assert_eq!(&ids(&source, &rest)[..], &all[stop + 1..]);
        }
    }

    #[test]
    fn columns_that_are_held_narrower_give_the_same_batches((rows, group) in layouts(), to in 0usize..9) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &rows, group);
        let source = open_dir(dir.path());
        let mut plain = spec(&source, Shuffle::Full, 7);
        plain.batch.outputs.iter_mut().for_each(|o| o.dtype = gt_ir::DType::ALL[to]);
        let mut wide = plain.clone();
        // A second entry of another dtype keeps a column as it is stored until the batch is made.
        for (number, field) in source.fields().iter().enumerate() {
            wide.batch.outputs.push(Output { name: format!("{}_stored", field.name), ..Output::plain(number, field) });
        }
        let mut runs = [Run::start(source.clone(), plain).unwrap(), Run::start(source, wide).unwrap()];
        loop {
            let [a, b] = runs.each_mut().map(|run| run.next(&|| false).unwrap().map(|(batch, _)| batch));
            let (Some(a), Some(b)) = (&a, &b) else {
                prop_assert!(a.is_none() && b.is_none());
                break;
            };
            for (name, entry) in &a.entries {
                prop_assert_eq!(Some(entry), b.get(name), "{}", name);
            }
        }
    }

    #[test]
    fn split_samples_come_whole_in_several_rows((rows, group) in layouts(), shuffle in shuffles(), max in 1usize..7, tokens: bool) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &rows, group);
        let source = open_dir(dir.path());
        let mut spec = spec(&source, shuffle, 7);
        spec.batch.outputs[1].max_len = Some(max);
        spec.batch.outliers = Outliers::Split;
        spec.cut.max_tokens = tokens.then_some(60);
        let mut run = Run::start(source, spec).unwrap();
        let (mut samples, mut seen) = (0, 0);
        while let Some((batch, _)) = run.next(&|| false).unwrap() {
            let ids = i64s(batch.get("sample_id").unwrap());
            prop_assert_eq!(&i64s(batch.get("id").unwrap()), &ids);
            let lengths = i64s(batch.get("lengths").unwrap());
            let (shape, hits) = f32s(batch.get("hits").unwrap());
            prop_assert!(shape[0] == ids.len() && shape[1] <= max && (!tokens || shape[0] * shape[1] <= 60));
            let mut distinct = ids.clone();
            distinct.dedup();
            samples += distinct.len();
            prop_assert_eq!(distinct.len(), batch.samples);
            for id in distinct {
                let mine = ids.iter().enumerate().filter(|&(_, &other)| other == id);
                let joined: Vec<f32> =
                    mine.flat_map(|(r, _)| hits[r * shape[1]..][..lengths[r] as usize].to_vec()).collect();
                prop_assert_eq!(joined, (0..len_of(id)).map(|i| hit(id, i)).collect::<Vec<_>>());
            }
            seen += 1;
        }
        prop_assert_eq!(samples, rows.iter().sum::<usize>());
        prop_assert!(seen > 0 || samples == 0);
    }

    #[test]
    fn batches_hold_what_the_files_hold((rows, group) in layouts(), shuffle in shuffles(), packed: bool) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &rows, group);
        let source = open_dir(dir.path());
        let mut spec = spec(&source, shuffle, 7);
        spec.batch.outputs[1].pad_value = -1.0;
        spec.batch.outputs[1].multiple = 4;
        spec.batch.collate = if packed { Collate::Packed } else { Collate::Padded };
        let mut run = Run::start(source, spec).unwrap();
        while let Some((batch, _)) = run.next(&|| false).unwrap() {
            let ids = i64s(batch.get("sample_id").unwrap());
            prop_assert_eq!(&i64s(batch.get("id").unwrap()), &ids);
            let (shape, hits) = f32s(batch.get("hits").unwrap());
            if packed {
                let expected: Vec<f32> = ids.iter().flat_map(|&id| (0..len_of(id)).map(move |i| hit(id, i))).collect();
                prop_assert_eq!(hits, expected);
                continue;
            }
            prop_assert_eq!(shape[0], ids.len());
            prop_assert_eq!(shape[1] % 4, 0);
            prop_assert_eq!(i64s(batch.get("lengths").unwrap()), ids.iter().map(|&id| len_of(id) as i64).collect::<Vec<_>>());
            let Some(Entry::Tensor { bytes: mask, .. }) = batch.get("mask") else { panic!("no mask") };
            for (r, &id) in ids.iter().enumerate() {
                for c in 0..shape[1] {
                    let expected = if c < len_of(id) { hit(id, c) } else { -1.0 };
                    prop_assert_eq!(hits[r * shape[1] + c], expected);
                    prop_assert_eq!(mask[r * shape[1] + c], u8::from(c < len_of(id)));
                }
            }
        }
    }
}

#[test]
fn memory_stays_within_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[400; 40], 400);
    let source = open_dir(dir.path());
    let block: u64 = source.blocks()[0].memory_bytes;
    let mut spec = spec(&source, Shuffle::Pool { blocks: 8, lanes: 4 }, 32);
    spec.memory_budget = block * 16;
    spec.threads = 2;
    let mut run = Run::start(source, spec).unwrap();
    while run.next(&|| false).unwrap().is_some() {}
    let stats = run.stats();
    assert_eq!(stats.blocks, 40, "every block is read once");
    assert!(stats.peak_bytes <= block * 16 * 11 / 10, "{} of {}", stats.peak_bytes, block * 16);
}

#[test]
fn dropping_a_run_in_the_middle_ends_its_threads() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[100; 20], 10);
    let source = open_dir(dir.path());
    for consumed in 0..5 {
        let mut spec = spec(&source, Shuffle::Full, 16);
        spec.threads = 3;
        let mut run = Run::start(source.clone(), spec).unwrap();
        for _ in 0..consumed {
            run.next(&|| false).unwrap();
        }
        drop(run);
    }
    // A thread that still ran would hold the source.
    assert_eq!(std::sync::Arc::strong_count(&source), 1);
}

#[test]
fn a_described_position_behind_the_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[30], 10);
    let source = open_dir(dir.path());
    for shuffle in [Shuffle::Off, Shuffle::Full, Shuffle::Pool { blocks: 2, lanes: 2 }] {
        // The second made a worker ask for 2^43 places, and abort.
        for position in [31, u64::MAX - (1 << 43) + 1, u64::MAX] {
            let start = Position { position, batch: 0 };
            let wrong = Run::start(source.clone(), RunSpec { start, ..spec(&source, shuffle, 4) }).unwrap_err();
            assert!(matches!(&wrong, DataError::Argument(why) if why.contains("30 samples")), "{wrong}");
        }
        let end = Position { position: 30, batch: u32::MAX };
        let mut run = Run::start(source.clone(), RunSpec { start: end, ..spec(&source, shuffle, 4) }).unwrap();
        assert!(run.next(&|| false).unwrap().is_none());
    }
}

#[test]
fn described_numbers_of_any_size_do_not_overflow() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[30], 10);
    let source = open_dir(dir.path());
    let all: Vec<i64> = (0..30).collect();
    for huge in [usize::MAX, usize::MAX / 2, usize::MAX - 7, 1 << 62] {
        for bucket in [false, true] {
            let cut = Cut { batch_size: huge, drop_last: false, max_tokens: bucket.then_some(huge), bucket };
            let shuffle = Shuffle::Pool { blocks: huge, lanes: huge };
            let mut spec = RunSpec { cut, prefetch: huge, ..spec(&source, shuffle, 1) };
            spec.memory_budget = u64::MAX;
            spec.batch.outputs[1].max_len = Some(huge);
            let mut seen: Vec<i64> = ids(&source, &spec).into_iter().flat_map(|(ids, _)| ids).collect();
            seen.sort();
            assert_eq!(seen, all, "{huge}");
        }
    }
}
