//! Who may take another of a bounded number of places that cost nothing to take.
//!
//! PLACES-1: one origin holds no more places than are free, beyond a few. So however many it asks for, there is always one left for
//! somebody else, and everybody can take many while there are many.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::Peer;

/// So many everybody may hold, however few are free.
const ALWAYS: usize = 16;

/// Whether who holds `held` of the `taken` places may have another, where there are `most` of them (PLACES-1).
pub fn may_take_another(held: usize, taken: usize, most: usize) -> bool {
    taken < most && (held < ALWAYS || held <= most - taken)
}

impl Peer {
    /// What those have in common who may be one and the same: a process of this host, or an address (of IPv6 the network).
    pub fn origin(&self) -> String {
        let Ok(at) = self.address.parse::<SocketAddr>() else { return self.address.clone() };
        match at.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_origin_took_all_places() {
        let (mut flood, mut taken) = (0, 0);
        while may_take_another(flood, taken, 1024) {
            (flood, taken) = (flood + 1, taken + 1);
        }
        assert_eq!(flood, 513);
        // Others get in, one after the other, and one who takes all it can get does not take the last either.
        let mut second = 0;
        while may_take_another(second, taken, 1024) {
            (second, taken) = (second + 1, taken + 1);
        }
        assert!(second > 200 && may_take_another(0, taken, 1024));
        assert!(!may_take_another(0, 1024, 1024), "there are no more than there are");
        assert!(may_take_another(3, 3, 4), "a few places are not rationed");
    }

    #[test]
    fn origins_are_processes_and_addresses() {
        let origin = |address: &str| Peer { address: address.into(), same_host: false, user_id: None }.origin();
        assert_eq!(origin("process 17"), "process 17");
        assert_eq!(origin("10.0.0.7:4711"), origin("[::ffff:10.0.0.7]:4712"));
        assert_eq!(origin("[2001:db8:1:2:3::4]:1"), origin("[2001:db8:1:2::9]:2"));
        assert_ne!(origin("[2001:db8:1:2::9]:1"), origin("[2001:db8:1:3::9]:1"));
    }
}
