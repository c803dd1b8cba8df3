//! Source lines, interned: an instruction carries a number, an error carries `file:line`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;

use gt_ir::SiteId;
use parking_lot::Mutex;

use crate::thread::THREAD;

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
    THREAD.with(|thread| thread.site.set(id));
}

/// The line that what this thread records now belongs to: the one set last, or, in a program that sets none, the caller's.
#[inline]
pub(crate) fn here(caller: &'static Location<'static>) -> SiteId {
    match THREAD.with(|thread| thread.site.get()) {
        SiteId(0) => of_rust(caller),
        set => set,
    }
}

/// The id of a line of a Rust program; lines of this crate are nobody's.
#[cold]
fn of_rust(caller: &'static Location<'static>) -> SiteId {
    thread_local! {
        static KNOWN: RefCell<HashMap<*const Location<'static>, SiteId>> = RefCell::new(HashMap::new());
    }
    KNOWN.with_borrow_mut(|known| {
        *known.entry(caller).or_insert_with(|| {
            let own = Location::caller().file().trim_end_matches("site.rs");
            match caller.file().starts_with(own) {
                true => SiteId(0),
                false => intern(&format!("{}:{}", caller.file(), caller.line())),
            }
        })
    })
}
