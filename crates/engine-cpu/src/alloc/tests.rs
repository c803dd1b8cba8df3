//! Blocks that come and go, are lent and adopted.

use super::*;

#[test]
fn blocks_come_back_and_the_limit_holds() {
    let allocator = Allocator::new(10_000);
    let a = allocator.allocate(4096).unwrap();
    let first = a.ptr();
    drop(a);
    assert_eq!(allocator.memory().cached_bytes, 4096);
    let b = allocator.allocate(4000).unwrap();
    assert_eq!(b.ptr(), first);
    let failure = allocator.allocate(8192).err().unwrap();
    assert_eq!(failure.kind, FailureKind::Memory);
    assert!(failure.message.contains("8192") && failure.message.contains("10000"), "{}", failure.message);
    drop(b);
    // The cached block is in the way and goes.
    let c = allocator.allocate(8192).unwrap();
    assert_eq!(allocator.memory().cached_bytes, 0);
    drop(c);
    allocator.trim();
    assert_eq!(allocator.memory(), Memory { live_bytes: 0, peak_bytes: 8192, cached_bytes: 0, limit_bytes: 10_000 });
}

#[test]
fn ordinary_memory_takes_of_the_limit_and_of_what_is_cached() {
    let allocator = Allocator::new(8192);
    drop(allocator.allocate(4096).unwrap());
    allocator.charge(6000).unwrap();
    let memory = allocator.memory();
    assert_eq!((memory.live_bytes, memory.cached_bytes), (6000, 0));
    assert!(allocator.allocate(4096).is_err());
    assert_eq!(allocator.charge(3000).unwrap_err().kind, FailureKind::Memory);
    allocator.give_back(6000);
    allocator.allocate(4096).unwrap();
}

#[test]
fn a_quota_refuses_what_the_limit_would_allow() {
    let allocator = Allocator::new(1 << 20);
    let quota = Quota::new(8192);
    let charging = allocator.charge_to(quota.clone());
    let own = allocator.allocate(4096).unwrap();
    assert_eq!(allocator.allocate(4097).err().unwrap().kind, FailureKind::Memory);
    drop(charging);
    let foreign = allocator.allocate(1 << 16).unwrap();
    assert_eq!(quota.memory().live_bytes, 4096);
    drop((own, foreign));
    assert_eq!((quota.memory().live_bytes, allocator.memory().live_bytes), (0, 0));
}

#[test]
fn lent_blocks_have_no_byte_that_was_never_written_and_come_back_to_be_lent() {
    let allocator = Allocator::new(1 << 24);
    // A block that the engine used is not lent: who knows what of it was written.
    drop(allocator.allocate(100_000).unwrap());
    let mut lent = allocator.lend(100_000).unwrap();
    assert!(lent.bytes().len() == 100_000 && lent.bytes().iter().all(|&b| b == 0));
    lent.bytes_mut().fill(7);
    let first = lent.ptr();
    assert!(allocator.allocate(100_000).unwrap().bytes().is_empty());
    drop(lent);
    // A smaller one may have it too, with what was there.
    let again = allocator.lend(90_000).unwrap();
    assert_eq!((again.ptr(), again.bytes().len(), again.bytes()[0]), (first, 90_000, 7));
    drop(again);
    assert_ne!(allocator.lend(50_000).unwrap().ptr(), first, "half of it would be wasted");
    // The engine may have it as well, and it stays one that may be lent.
    let own = [allocator.allocate(100_000).unwrap(), allocator.allocate(100_000).unwrap()];
    assert_eq!(own[1].ptr(), first);
    drop(own);
    assert_eq!(allocator.lend(100_000).unwrap().ptr(), first);
    assert_eq!(allocator.memory().live_bytes, 0);
}

#[test]
fn a_lent_block_is_charged_once_it_is_adopted_to_the_run_that_does() {
    let allocator = Allocator::new(13_000);
    // Lent blocks are in nobody's way, but all together stay below the limit.
    let lent: Vec<Storage> = (0..3).map(|_| allocator.lend(4096).unwrap()).collect();
    assert!(allocator.lend(4096).is_err_and(|failure| failure.kind == FailureKind::Memory));
    let own = allocator.allocate(12_288).unwrap();
    assert_eq!(allocator.memory().live_bytes, 12_288);
    assert_eq!(allocator.adopt(&lent[0]).unwrap_err().kind, FailureKind::Memory);
    drop(own);
    let quota = Quota::new(5000);
    let charging = allocator.charge_to(quota.clone());
    allocator.adopt(&lent[0]).unwrap();
    allocator.adopt(&lent[0]).unwrap();
    assert_eq!((allocator.memory().live_bytes, quota.memory().live_bytes), (4096, 4096));
    assert!(allocator.adopt(&lent[1]).is_err(), "the quota is spent");
    drop(charging);
    allocator.adopt(&lent[1]).unwrap();
    assert!(Allocator::new(1 << 20).adopt(&lent[2]).is_err(), "it is another's");
    drop(lent);
    let memory = allocator.memory();
    assert_eq!((memory.live_bytes, quota.memory().live_bytes), (0, 0));
    assert!(memory.cached_bytes <= memory.limit_bytes, "{memory:?}");
}

#[test]
fn a_refusal_by_the_allocator_leaves_the_quota_as_it_was() {
    let allocator = Allocator::new(4096);
    let quota = Quota::new(1 << 20);
    let _charging = allocator.charge_to(quota.clone());
    assert!(allocator.allocate(8192).is_err());
    assert_eq!(quota.memory().live_bytes, 0);
}

#[test]
fn what_came_back_last_is_lent_first() {
    let allocator = Allocator::new(1 << 24);
    let places: Vec<*mut u8> = {
        // Each of a class of its own, and none more than half as large again as the first.
        let lent: Vec<Storage> = [100_000, 120_000, 140_000].map(|len| allocator.lend(len).unwrap()).into();
        lent.iter().map(Storage::ptr).collect()
    };
    let again: Vec<Storage> = (0..3).map(|_| allocator.lend(100_000).unwrap()).collect();
    // They were dropped in order.
    assert_eq!(again.iter().rev().map(Storage::ptr).collect::<Vec<_>>(), places);
    drop(again);
    let small = allocator.lend(10_000).unwrap();
    assert!(!places.contains(&small.ptr()), "too large a block");
}
