//! Which user's process is at the other end of a connection over loopback: the kernel knows.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Where the kernel lists the sockets of this network.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// `ESTABLISHED`. In other states a socket may have lost its owner, and would be said to be root's.
const ESTABLISHED: &str = "01";

/// The user of the socket at `other`, which is connected to `own`; none when the kernel does not list it.
pub(crate) fn user_of(other: SocketAddr, own: SocketAddr) -> Option<u32> {
    let (other, own) = (canonical(other), canonical(own));
    if !other.0.is_loopback() {
        return None;
    }
    TABLES.iter().find_map(|table| find(&std::fs::read_to_string(table).ok()?, other, own))
}

fn canonical(at: SocketAddr) -> (IpAddr, u16) {
    (at.ip().to_canonical(), at.port())
}

fn find(table: &str, local: (IpAddr, u16), remote: (IpAddr, u16)) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_it = parse(fields.next()?)? == local && parse(fields.next()?)? == remote;
        let is_established = fields.next()? == ESTABLISHED;
        fields.nth(3).filter(|_| is_it && is_established)?.parse().ok()
    })
}

/// `0100007F:1F90`: words of the address as this machine holds them in memory, and the port.
fn parse(text: &str) -> Option<(IpAddr, u16)> {
    let (words, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(words.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match words.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let bytes = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))
        }
        _ => return None,
    };
    Some((ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_names_the_user_at_either_end_and_nobody_for_a_closed_one() {
        let own = crate::own_user();
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (there, _) = listener.accept().unwrap();
            let ends = |s: &TcpStream| (s.peer_addr().unwrap(), s.local_addr().unwrap());
            let ((a, b), (c, d)) = (ends(&here), ends(&there));
            assert_eq!((user_of(a, b), user_of(c, d)), (Some(own), Some(own)), "{host}");
            drop(here);
            assert_eq!(user_of(c, d), None, "an orphan is nobody's");
        }
        assert_eq!(user_of("10.1.2.3:4".parse().unwrap(), "10.1.2.4:5".parse().unwrap()), None);
    }

    #[test]
    fn rows_of_the_table_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 00000000:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n\
             1: 0100007F:CF68 0100007F:2328 01 00000000:00000000 02:000A2E5A 00000000  1234        0 2 2 0\n\
             2: 0100007F:CF6A 0100007F:2328 06 00000000:00000000 02:000A2E5A 00000000     0        0 0 2 0\n";
        let at = |text: &str| canonical(text.parse().unwrap());
        assert_eq!(find(table, at("127.0.0.1:53096"), at("127.0.0.1:9000")), Some(1234));
        assert_eq!(find(table, at("[::ffff:127.0.0.1]:53096"), at("127.0.0.1:9000")), Some(1234));
        assert_eq!(find(table, at("127.0.0.1:53098"), at("127.0.0.1:9000")), None, "one that is closing");
        assert_eq!(find(table, at("127.0.0.1:53096"), at("127.0.0.1:9001")), None);
        assert_eq!(find("junk\nmore: junk\nx zz:zz", at("127.0.0.1:1"), at("127.0.0.1:2")), None);
    }
}
