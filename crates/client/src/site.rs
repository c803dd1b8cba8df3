//! Source lines, interned: an instruction carries a number, an error carries `file:line`.

use std::cell::Cell;
use std::collections::HashMap;

use gt_ir::SiteId;
use parking_lot::Mutex;

thread_local! {
    static CURRENT: Cell<SiteId> = const { Cell::new(SiteId(0)) };
}

struct Table {
    names: Vec<String>,
    ids: HashMap<String, SiteId>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// The id of `file:line`.
pub fn intern(name: &str) -> SiteId {
    let mut guard = TABLE.lock();
    let table = guard.get_or_insert_with(|| Table { names: Vec::new(), ids: HashMap::new() });
    if let Some(&id) = table.ids.get(name) {
        return id;
    }
    table.names.push(name.to_owned());
    let id = SiteId(table.names.len() as u32);
    table.ids.insert(name.to_owned(), id);
    id
}

/// The `file:line` of an id.
pub fn name(id: SiteId) -> Option<String> {
    let index = (id.0 as usize).checked_sub(1)?;
    TABLE.lock().as_ref()?.names.get(index).cloned()
}

/// Says which line the instructions recorded next by this thread belong to.
#[inline]
pub fn set(id: SiteId) {
    CURRENT.set(id);
}

/// The line set last by this thread.
#[inline]
pub fn current() -> SiteId {
    CURRENT.get()
}
