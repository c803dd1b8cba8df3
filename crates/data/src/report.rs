//! How good a shuffle is, from the order alone: nothing is read.

use crate::order::{EpochOrder, OrderSpec, Place};

/// What is asked about an order.
#[derive(Clone, Debug)]
pub struct ReportSpec {
    /// The order.
    pub order: OrderSpec,
    /// Its first epoch; overlap compares it with the next.
    pub epoch: u64,
    /// Samples in a batch.
    pub batch_size: usize,
    /// How much of a label's variance is between blocks, where no labels are given.
    pub correlation: f64,
}

/// How well one stretch of an epoch is mixed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mixing {
    /// How often a sample is of the same block as that of the position before. (Inside a batch samples come lane by lane.)
    pub same_block: f64,
    /// Blocks in a batch, over what a full shuffle would have.
    pub distinct_blocks: f64,
    /// `Var(batch label mean) · B / Var(label)`: one is perfect.
    pub design_effect: f64,
}

/// How good a shuffle is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShuffleReport {
    /// Whether every sample comes exactly once.
    pub exactly_once: bool,
    /// Of places in storage with places in the epoch: zero is perfect.
    pub rank_correlation: f64,
    /// Over the whole epoch.
    pub whole: Mixing,
    /// Over its first twentieth.
    pub first: Mixing,
    /// Over its last twentieth.
    pub last: Mixing,
    /// How often two samples of a batch meet again in the next epoch, over what a full shuffle would have.
    pub epoch_overlap: f64,
}

/// Looks at the order of blocks of these lengths. `labels` are the samples' own, in the order they are stored.
pub fn shuffle_report(spec: &ReportSpec, lens: &[u32], labels: Option<&[f32]>) -> ShuffleReport {
    let starts: Vec<u64> = lens
        .iter()
        .scan(0u64, |next, &n| {
            let start = *next;
            *next += n as u64;
            Some(start)
        })
        .collect();
    let places: Vec<Place> = EpochOrder::new(spec.order, spec.epoch, lens).from(0).collect();
    let stored: Vec<u64> = places.iter().map(|p| starts[p.block as usize] + p.row as u64).collect();
    let n = places.len();
    let mut seen = vec![false; n];
    let mut exactly_once = lens.iter().map(|&l| l as usize).sum::<usize>() == n;
    for &s in &stored {
        exactly_once &= !std::mem::replace(&mut seen[s as usize], true);
    }
    let labels = labels.filter(|l| l.len() == n);
    let size = spec.batch_size.clamp(1, n.max(1));
    let edge = (n / 20).max(size).min(n);
    let mixing = |from: usize, to: usize| mixing(spec, lens, labels, &places[from..to], &stored[from..to], size, n);
    ShuffleReport {
        exactly_once,
        rank_correlation: rank_correlation(&stored),
        whole: mixing(0, n),
        first: mixing(0, edge),
        last: mixing(n - edge, n),
        epoch_overlap: overlap(spec, lens, &starts, &stored, size),
    }
}

/// Spearman's: both sides are permutations already.
fn rank_correlation(stored: &[u64]) -> f64 {
    let n = stored.len() as f64;
    if stored.len() < 2 {
        return 0.0;
    }
    let mean = (n - 1.0) / 2.0;
    let covariance: f64 = stored.iter().enumerate().map(|(i, &s)| (i as f64 - mean) * (s as f64 - mean)).sum();
    covariance / (n * (n * n - 1.0) / 12.0)
}

fn mixing(
    spec: &ReportSpec,
    lens: &[u32],
    labels: Option<&[f32]>,
    places: &[Place],
    stored: &[u64],
    size: usize,
    total: usize,
) -> Mixing {
    if places.len() < 2 {
        return Mixing { same_block: 0.0, distinct_blocks: 1.0, design_effect: 1.0 };
    }
    let same = places.windows(2).filter(|w| w[0].block == w[1].block).count();
    let mut counts = vec![0u32; lens.len()];
    let (mut batches, mut distinct, mut squared) = (0usize, 0usize, 0.0);
    // Each block's share of all samples: what a batch would have of it, were it a picture of the whole.
    let share = |block: u32| lens[block as usize] as f64 / total as f64;
    let shares: f64 = (0..lens.len() as u32).map(|block| share(block).powi(2)).sum();
    let mut means = Vec::new();
    for (batch, stored) in places.chunks_exact(size).zip(stored.chunks_exact(size)) {
        batches += 1;
        batch.iter().for_each(|p| counts[p.block as usize] += 1);
        let mut squares = 0u64;
        for p in batch {
            let count = std::mem::take(&mut counts[p.block as usize]) as u64;
            squares += count * count;
            distinct += usize::from(count > 0);
        }
        let shared: f64 = batch.iter().map(|p| share(p.block)).sum();
        squared += squares as f64 / (size * size) as f64 - 2.0 * shared / size as f64 + shares;
        if let Some(labels) = labels {
            means.push(stored.iter().map(|&s| labels[s as usize] as f64).sum::<f64>() / size as f64);
        }
    }
    let batches_f = batches.max(1) as f64;
    let design_effect = match labels {
        // As for labels of which this part of the variance is between blocks, around the mean of the epoch they are in.
        None => {
            let (between, within) = (spec.correlation, 1.0 - spec.correlation);
            let all = between * (1.0 - shares) + within * (1.0 - 1.0 / total as f64);
            let of_means = between * squared / batches_f + within * (1.0 / size as f64 - 1.0 / total as f64);
            if all > 0.0 && total > size { of_means * size as f64 / all } else { 1.0 }
        }
        Some(labels) => {
            let all = variance(labels.iter().map(|&l| l as f64));
            let mean = labels.iter().map(|&l| l as f64).sum::<f64>() / labels.len().max(1) as f64;
            let between = means.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / batches_f;
            if all > 0.0 { between * size as f64 / all } else { 1.0 }
        }
    };
    Mixing {
        same_block: same as f64 / (places.len() - 1) as f64,
        distinct_blocks: distinct as f64 / batches_f / expected_blocks(lens, size, total),
        design_effect,
    }
}

fn variance(of: impl Iterator<Item = f64> + Clone) -> f64 {
    let n = of.clone().count().max(1) as f64;
    let mean = of.clone().sum::<f64>() / n;
    of.map(|x| (x - mean) * (x - mean)).sum::<f64>() / n
}

/// How many blocks a batch of a full shuffle has, on average.
fn expected_blocks(lens: &[u32], size: usize, total: usize) -> f64 {
    let mut by_len = std::collections::BTreeMap::new();
    lens.iter().filter(|&&l| l > 0).for_each(|&l| *by_len.entry(l).or_insert(0u64) += 1);
    let missed = |len: u32| (0..size).map(|i| (1.0 - len as f64 / (total - i) as f64).max(0.0)).product::<f64>();
    by_len.into_iter().map(|(len, blocks)| blocks as f64 * (1.0 - missed(len))).sum::<f64>().max(1.0)
}

/// How often samples of a batch meet again (see [`ShuffleReport::epoch_overlap`]).
fn overlap(spec: &ReportSpec, lens: &[u32], starts: &[u64], stored: &[u64], size: usize) -> f64 {
    let n = stored.len();
    if size < 2 || n <= size {
        return 1.0;
    }
    let mut batch_of = vec![0u32; n];
    stored.iter().enumerate().for_each(|(i, &s)| batch_of[s as usize] = (i / size) as u32);
    let mut counts = vec![0u64; n / size + 1];
    let (mut again, mut pairs) = (0u64, 0u64);
    let next: Vec<u64> = EpochOrder::new(spec.order, spec.epoch + 1, lens)
        .from(0)
        .map(|p| starts[p.block as usize] + p.row as u64)
        .collect();
    for batch in next.chunks_exact(size) {
        batch.iter().for_each(|&s| counts[batch_of[s as usize] as usize] += 1);
        for &s in batch {
            let count = std::mem::take(&mut counts[batch_of[s as usize] as usize]);
            again += count * count.saturating_sub(1);
        }
        pairs += (size * (size - 1)) as u64;
    }
    let expected = (size - 1) as f64 / (n - 1) as f64;
    if pairs == 0 { 1.0 } else { again as f64 / pairs as f64 / expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Shuffle;

    fn report(shuffle: Shuffle) -> ShuffleReport {
        let order = OrderSpec { seed: 1, shuffle };
        shuffle_report(&ReportSpec { order, epoch: 0, batch_size: 64, correlation: 0.01 }, &[100; 200], None)
    }

    #[test]
    fn stored_order_full_shuffle_and_pool_are_told_apart() {
        let (off, full) = (report(Shuffle::Off), report(Shuffle::Full));
        let pool = report(Shuffle::Pool { blocks: 64, lanes: 16 });
        assert!(off.exactly_once && full.exactly_once && pool.exactly_once);
        assert!(off.rank_correlation > 0.999 && full.rank_correlation.abs() < 0.03);
        assert!(off.whole.same_block > 0.98 && full.whole.same_block < 0.02 && pool.whole.same_block < 0.02);
        assert!(off.whole.design_effect > 1.4, "{off:?}");
        assert!((full.whole.design_effect - 1.0).abs() < 0.01 && (full.whole.distinct_blocks - 1.0).abs() < 0.02);
        assert!(pool.whole.design_effect < 1.02 && pool.last.design_effect < 1.1, "{pool:?}");
        assert!(off.epoch_overlap > 200.0 && (full.epoch_overlap - 1.0).abs() < 0.1);
        // Blocks of a pool meet again as often as other blocks do, and so do their samples, nearly.
        assert!(pool.epoch_overlap < 1.5, "{pool:?}");
    }

    #[test]
    fn labels_that_follow_their_block_show_what_the_formula_says() {
        // Every label is its block's: a correlation of one.
        let lens = [50; 40];
        let labels: Vec<f32> = (0..2000).map(|i| ((i / 50 * 7) % 13) as f32).collect();
        let spec =
            |shuffle| ReportSpec { order: OrderSpec { seed: 3, shuffle }, epoch: 0, batch_size: 50, correlation: 1.0 };
        let off = shuffle_report(&spec(Shuffle::Off), &lens, Some(&labels));
        assert!((off.whole.design_effect - 50.0).abs() < 1e-6, "{off:?}");
        let full = shuffle_report(&spec(Shuffle::Full), &lens, Some(&labels));
        assert!(full.whole.design_effect < 2.0, "{full:?}");
    }

    #[test]
    fn a_full_shuffle_of_few_blocks_is_as_good_as_one_of_many() {
        for lens in [&[2000u32][..], &[500; 4], &[100, 1900], &[100; 20]] {
            for shuffle in [Shuffle::Full, Shuffle::Pool { blocks: 128, lanes: 16 }] {
                let order = OrderSpec { seed: 1, shuffle };
                let found =
                    shuffle_report(&ReportSpec { order, epoch: 0, batch_size: 64, correlation: 0.01 }, lens, None);
                assert!((0.9..1.02).contains(&found.whole.design_effect), "{lens:?}, {shuffle:?}: {found:?}");
            }
        }
    }

    #[test]
    fn few_samples_are_no_trouble() {
        for lens in [&[][..], &[0], &[1], &[1, 0, 1]] {
            let order = OrderSpec { seed: 0, shuffle: Shuffle::Full };
            let spec = ReportSpec { order, epoch: 0, batch_size: 8, correlation: 0.01 };
            assert!(shuffle_report(&spec, lens, None).exactly_once);
        }
    }
}
