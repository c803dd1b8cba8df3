//! The user's source line: that of the first frame outside the package, found without walking line tables.
//!
//! A call site is a code object and an instruction offset. Both are looked up in a small table whose entries hold the code
//! object, so that its address cannot come to mean another; the line is computed once per site. No frame is kept.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::raw::{c_char, c_int, c_void};
use std::sync::OnceLock;

use gt_ir::SiteId;
use pyo3::ffi;
use pyo3::prelude::*;

/// Functions every CPython since 3.11 exports, though not as part of the stable ABI.
struct Frames {
    last_instruction: unsafe extern "C" fn(*mut ffi::PyFrameObject) -> c_int,
    back: unsafe extern "C" fn(*mut ffi::PyFrameObject) -> *mut ffi::PyFrameObject,
}

static FRAMES: OnceLock<Option<Frames>> = OnceLock::new();

fn frames() -> Option<&'static Frames> {
    FRAMES
        .get_or_init(|| {
            // SAFETY: dlsym with a terminated name; the signatures are those of CPython's headers.
            unsafe {
                let find = |name: &'static [u8]| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr() as *const c_char);
                let (last, back) = (find(b"PyFrame_GetLasti\0"), find(b"PyFrame_GetBack\0"));
                if last.is_null() || back.is_null() {
                    return None;
                }
                Some(Frames {
                    last_instruction: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C" fn(*mut ffi::PyFrameObject) -> c_int,
                    >(last),
                    back: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C" fn(*mut ffi::PyFrameObject) -> *mut ffi::PyFrameObject,
                    >(back),
                })
            }
        })
        .as_ref()
}

#[derive(Clone, Copy)]
struct Entry {
    code: *mut ffi::PyCodeObject,
    offset: c_int,
    site: SiteId,
    /// Inside the package: the caller's frame is wanted.
    internal: bool,
}

/// Two neighbours are a pair in which a site may lie: with one place each, some sites of a model would take it from each
/// other in every step.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 10;
const NOTHING: Entry = Entry { code: std::ptr::null_mut(), offset: 0, site: SiteId(0), internal: false };

type Entries = Box<[[Cell<Entry>; 2]; SLOTS / 2]>;

/// What is needed to fill an entry.
struct Known {
    /// The package's folder, with a separator at the end.
    package: String,
    /// Code objects that entries refer to; never released, one per function that calls GT.
    held: std::collections::HashSet<usize>,
}

thread_local! {
    static ENTRIES: OnceCell<Entries> = const { OnceCell::new() };
    static KNOWN: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// Says which line the instructions recorded next belong to.
#[inline]
pub fn mark(py: Python<'_>) {
    if let Some(site) = find(py) {
        gt_client::site::set(site);
    }
}

fn find(py: Python<'_>) -> Option<SiteId> {
    let frames = frames()?;
    // SAFETY: the interpreter is attached; PyEval_GetFrame borrows, the others give references that are released below.
    unsafe {
        let frame = ffi::PyEval_GetFrame();
        if frame.is_null() {
            return None;
        }
        let entry = look(py, frames, frame)?;
        if !entry.internal {
            return Some(entry.site);
        }
        let mut frame = frame;
        let mut owned = false;
        loop {
            let back = (frames.back)(frame);
            if owned {
                ffi::Py_DECREF(frame.cast());
            }
            if back.is_null() {
                return Some(entry.site);
            }
            (frame, owned) = (back, true);
            let entry = look(py, frames, frame);
            if let Some(entry) = entry
                && !entry.internal
            {
                ffi::Py_DECREF(frame.cast());
                return Some(entry.site);
            }
        }
    }
}

/// The pair of places in which a site may lie, the one entered last first.
#[inline]
fn with_pair<T>(code: *mut ffi::PyCodeObject, offset: c_int, f: impl FnOnce(&[Cell<Entry>; 2]) -> T) -> T {
    let empty = || Box::new([const { [const { Cell::new(NOTHING) }; 2] }; SLOTS / 2]);
    // Code objects are 16 bytes apart at least; the product's high bits depend on all of both.
    let mixed = (code as u64 >> 4 ^ (offset as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ENTRIES.with(|entries| f(&entries.get_or_init(empty)[(mixed >> (65 - SLOT_BITS)) as usize]))
}

/// The entry of a frame's current instruction.
///
/// # Safety
/// `frame` must be a live frame and the interpreter attached.
#[inline]
unsafe fn look(py: Python<'_>, frames: &Frames, frame: *mut ffi::PyFrameObject) -> Option<Entry> {
    // SAFETY: as the caller says; the code object is kept alive by the frame until the reference is given back.
    unsafe {
        let code = ffi::PyFrame_GetCode(frame);
        let offset = (frames.last_instruction)(frame);
        let is_its = |entry: &Entry| entry.code == code && entry.offset == offset;
        let entry = with_pair(code, offset, |pair| pair.iter().map(Cell::get).find(is_its));
        let entry = entry.or_else(|| enter(py, code, offset, ffi::PyFrame_GetLineNumber(frame)));
        ffi::Py_DECREF(code.cast());
        entry
    }
}

#[cold]
fn enter(py: Python<'_>, code: *mut ffi::PyCodeObject, offset: c_int, line: c_int) -> Option<Entry> {
    // SAFETY: `code` is alive: the caller holds a reference.
    let object: Bound<'_, PyAny> = unsafe { Bound::from_borrowed_ptr(py, code.cast()) };
    let file: String = object.getattr("co_filename").and_then(|f| f.extract()).ok()?;
    let site = gt_client::site::intern(&format!("{file}:{line}"));
    let fresh = KNOWN.with_borrow(|known| known.is_none()).then(|| package_folder(py));
    KNOWN.with_borrow_mut(|known| {
        let known = known.get_or_insert_with(|| Known {
            package: fresh.unwrap_or_default(),
            held: std::collections::HashSet::new(),
        });
        let internal = (!known.package.is_empty() && file.starts_with(&known.package)) || file.starts_with("<frozen ");
        if known.held.insert(code as usize) {
            std::mem::forget(object.unbind());
        }
        let entry = Entry { code, offset, site, internal };
        with_pair(code, offset, |[first, second]| second.set(first.replace(entry)));
        Some(entry)
    })
}

fn package_folder(py: Python<'_>) -> String {
    let folder = || -> PyResult<String> {
        let paths = py.import("gt")?.getattr("__path__")?;
        let first: String = paths.get_item(0)?.extract()?;
        Ok(format!("{first}/"))
    };
    folder().unwrap_or_default()
}
