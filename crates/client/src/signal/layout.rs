//! What a placement is on the workers there are.

use gt_ir::ScopeId;
use gt_ir::shard::Split;
use gt_shard::{Layout, Mesh};

use super::config::{ShardConfig, SignalConfig, WorkerName, Workers};
use super::scope;

/// The part of a config that says where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ScopeSpec {
    shard: Vec<ShardConfig>,
    workers: Workers,
}

/// A placement on a group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resolved {
    /// `None`: as if there were no signal.
    pub layout: Option<Layout>,
    /// Workers that are named and not there.
    pub missing: Vec<String>,
}

impl ScopeSpec {
    pub fn of(config: &SignalConfig) -> ScopeSpec {
        ScopeSpec { shard: config.shard.clone(), workers: config.workers.clone() }
    }

    /// Whether it says anything.
    pub fn says_nothing(&self) -> bool {
        self.shard.is_empty()
    }

    /// The highest axis of tensors that it cuts.
    pub fn last_axis(&self) -> Option<u8> {
        self.shard.iter().filter_map(|shard| shard.axis).max()
    }

    /// The mesh it is on a group with these workers.
    pub fn resolve(&self, group: &[String]) -> Resolved {
        let config = SignalConfig { shard: self.shard.clone(), workers: self.workers.clone(), ..Default::default() };
        let (mut extents, open) = config.extents();
        let single = if let [one] = &self.shard[..] { Some(&one.workers) } else { None };
        let asked = match single.filter(|w| **w != Workers::All).unwrap_or(&self.workers) {
            Workers::All if open.is_some() => Workers::Count(group.len()),
            Workers::All => Workers::Count(extents.iter().product()),
            other => other.clone(),
        };
        let (there, missing) = find(&asked, group);
        if self.shard.is_empty() || there.is_empty() {
            return Resolved { layout: None, missing };
        }
        // Where workers are missing the last axes shrink first: a mesh has to be full.
        for axis in open.into_iter().chain((0..extents.len()).rev()) {
            let others: usize = extents.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, e)| e).product();
            let fit = (there.len() / others).max(1);
            extents[axis] = if open == Some(axis) { fit } else { extents[axis].min(fit) };
        }
        let count = extents.iter().product::<usize>();
        let extents: Vec<u32> = extents.iter().map(|&e| e as u32).collect();
        let mesh = there.get(..count).and_then(|workers| Mesh::grid(workers, &extents));
        let splits = self.shard.iter().map(|s| s.axis.map_or(Split::Replicate, |axis| Split::shard(axis as usize)));
        Resolved { layout: mesh.map(|mesh| Layout { mesh, splits: splits.collect() }), missing }
    }
}

/// The places of workers in a group, each once, and the names of those it has not.
fn find(asked: &Workers, group: &[String]) -> (Vec<u32>, Vec<String>) {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    let listed = match asked {
        Workers::All => (0..group.len()).map(WorkerName::Index).collect(),
        Workers::Count(n) => (0..*n).map(WorkerName::Index).collect(),
        Workers::Listed(names) => names.clone(),
    };
    for name in listed {
        let place = match &name {
            WorkerName::Index(i) => Some(*i).filter(|i| *i < group.len()),
            WorkerName::Id(id) => group.iter().position(|have| have == id),
        };
        match place {
            Some(place) if there.contains(&(place as u32)) => {}
            Some(place) => there.push(place as u32),
            None => missing.push(name.to_string()),
        }
    }
    (there, missing)
}

/// What a scope means on a group with these workers, named by their places in it; `None` for a scope that says nothing of
/// workers, or only of some that are not there.
pub fn layout(scope: ScopeId, workers: &[String]) -> Option<Layout> {
    scope::resolved(scope, workers)?.layout
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("worker_{i}")).collect()
    }

    fn indices(of: &[usize]) -> Workers {
        Workers::Listed(of.iter().map(|&i| WorkerName::Index(i)).collect())
    }

    fn placing(shard: Vec<ShardConfig>, workers: Workers) -> ScopeSpec {
        ScopeSpec::of(&SignalConfig { shard, workers, ..SignalConfig::default() }.checked().unwrap())
    }

    fn mesh(placing: &ScopeSpec, n: usize) -> Option<(Vec<u32>, Vec<u32>)> {
        let layout = placing.resolve(&group(n)).layout?;
        Some((layout.mesh.workers().to_vec(), layout.mesh.extents().to_vec()))
    }

    #[test]
    fn a_row_is_what_the_group_has_of_it() {
        let row = placing(vec![ShardConfig { axis: Some(1), workers: indices(&[2, 0, 5]) }], Workers::All);
        assert_eq!(mesh(&row, 8), Some((vec![2, 0, 5], vec![3])));
        assert_eq!(mesh(&row, 4), Some((vec![2, 0], vec![2])));
        assert_eq!(row.resolve(&group(4)).missing, ["5"]);
        assert_eq!(row.resolve(&group(4)).layout.unwrap().splits[..], [Split::shard(1)]);
        let far = placing(vec![ShardConfig { axis: Some(0), workers: indices(&[4, 5]) }], Workers::All);
        assert_eq!(mesh(&far, 2), None);
        let all = placing(vec![ShardConfig { axis: None, workers: Workers::All }], Workers::All);
        assert_eq!(mesh(&all, 3), Some((vec![0, 1, 2], vec![3])));
        assert_eq!(all.resolve(&group(3)).layout.unwrap().splits[..], [Split::Replicate]);
        let some = placing(vec![ShardConfig { axis: None, workers: Workers::All }], indices(&[1, 2]));
        assert_eq!(mesh(&some, 3), Some((vec![1, 2], vec![2])));
    }

    #[test]
    fn ids_are_found_by_name() {
        let ids = Workers::Listed(vec![WorkerName::Id("b".into()), WorkerName::Id("a".into()), WorkerName::Index(1)]);
        let row = placing(vec![ShardConfig { axis: Some(0), workers: ids }], Workers::All);
        let layout = row.resolve(&["a".into(), "b".into()]).layout.unwrap();
        assert_eq!(layout.mesh.workers(), [1, 0], "a worker that is named twice, by id and by index, is there once");
    }

    #[test]
    fn a_mesh_is_full_whatever_the_group() {
        let axis = |axis, workers| ShardConfig { axis: Some(axis), workers };
        let grid = placing(vec![axis(0, Workers::Count(2)), axis(1, Workers::Count(2))], Workers::All);
        assert_eq!(mesh(&grid, 5), Some((vec![0, 1, 2, 3], vec![2, 2])));
        assert_eq!(mesh(&grid, 3), Some((vec![0, 1], vec![2, 1])));
        assert_eq!(mesh(&grid, 1), Some((vec![0], vec![1, 1])));
        let open = placing(vec![axis(0, Workers::All), axis(1, Workers::Count(2))], Workers::All);
        assert_eq!(mesh(&open, 6), Some((vec![0, 1, 2, 3, 4, 5], vec![3, 2])));
        assert_eq!(mesh(&open, 7), Some((vec![0, 1, 2, 3, 4, 5], vec![3, 2])));
        assert_eq!(mesh(&open, 1), Some((vec![0], vec![1, 1])));
        let named = placing(vec![axis(0, Workers::Count(2)), axis(1, Workers::Count(2))], indices(&[7, 6, 5, 4]));
        assert_eq!(mesh(&named, 8), Some((vec![7, 6, 5, 4], vec![2, 2])));
    }
}
