//! A small map from ids to input numbers, reused from window to window without clearing.

use gt_ir::TensorId;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    id: u64,
    /// The cell is taken only if this is the map's current generation.
    generation: u32,
    index: u32,
}

/// A map from ids to numbers: open addressing with linear probing. A new generation empties it at once.
#[derive(Debug)]
pub struct InputIndex {
    cells: Vec<Cell>,
    generation: u32,
    len: usize,
}

/// Odd, with well spread bits: ids are small consecutive numbers, so the product's high bits differ.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Default for InputIndex {
    fn default() -> Self {
        InputIndex { cells: vec![Cell::default(); 64], generation: 1, len: 0 }
    }
}

impl InputIndex {
    /// Forgets everything.
    pub fn reset(&mut self) {
        self.len = 0;
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            // After 2^32 windows old cells would come back to life.
            self.cells.fill(Cell::default());
            self.generation = 1;
        }
    }

    #[inline]
    fn home(&self, id: u64) -> usize {
        (id.wrapping_mul(SPREAD) >> 32) as usize & (self.cells.len() - 1)
    }

    /// The number of `id`, if it has one.
    #[inline]
    pub fn get(&self, id: TensorId) -> Option<u32> {
        let mut at = self.home(id.0);
        loop {
            let cell = &self.cells[at];
            if cell.generation != self.generation {
                return None;
            }
            if cell.id == id.0 {
                return Some(cell.index);
            }
            at = (at + 1) & (self.cells.len() - 1);
        }
    }

    /// The number of `id`: an old one, or `next` if it is new.
    #[inline]
    pub fn get_or_insert(&mut self, id: TensorId, next: u32) -> u32 {
        if self.len * 2 >= self.cells.len() {
            self.grow();
        }
        let mut at = self.home(id.0);
        loop {
            let cell = &mut self.cells[at];
            if cell.generation != self.generation {
                *cell = Cell { id: id.0, generation: self.generation, index: next };
                self.len += 1;
                return next;
            }
            if cell.id == id.0 {
                return cell.index;
            }
            at = (at + 1) & (self.cells.len() - 1);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.cells.len() * 2;
        let old = std::mem::replace(&mut self.cells, vec![Cell::default(); size]);
        let generation = self.generation;
        for cell in old.into_iter().filter(|c| c.generation == generation) {
            let mut at = self.home(cell.id);
            while self.cells[at].generation == generation {
                at = (at + 1) & (size - 1);
            }
            self.cells[at] = cell;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_through_growth_and_forgets_on_reset() {
        let mut index = InputIndex::default();
        for round in 0..3u64 {
            index.reset();
            assert_eq!(index.get(TensorId(7)), None);
            for i in 0..1000u32 {
                let id = TensorId(i as u64 * 64 + round);
                assert_eq!(index.get_or_insert(id, i), i);
                assert_eq!(index.get_or_insert(id, 9999), i);
            }
            for i in 0..1000u32 {
                assert_eq!(index.get(TensorId(i as u64 * 64 + round)), Some(i));
            }
        }
    }
}
