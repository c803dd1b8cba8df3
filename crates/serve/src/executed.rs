//! How far a session's stream has run, in the numbers of its messages, and when the server is told.
//!
//! The worker counts what it was given: windows and the like. The server counts messages of the stream, some of which give
//! the worker nothing. Here the one count becomes the other.
//!
//! EXECUTED-1: a message has been executed when everything that it and those before it gave to the worker has run.
//! EXECUTED-2: the count never goes back, and reports are rare: each wakes another process.

use std::collections::VecDeque;

/// A message of the stream that gave the worker something.
struct Given {
    /// The worker's count once that has run.
    count: u64,
    /// The stream's count then.
    stream: u64,
    instrs: u64,
    bytes: u64,
}

/// The counts of one session.
pub(super) struct Executed {
    running: VecDeque<Given>,
    given: u64,
    executed: u64,
    reported: u64,
    unreported: (u64, u64),
    report_every: (u64, u64),
}

impl Executed {
    /// Nothing below `from` comes here. Reports are due after so many instructions or bytes.
    pub(super) fn new(from: u64, report_every: (u64, u64)) -> Self {
        let running = VecDeque::new();
        Executed { running, given: 0, executed: from, reported: from, unreported: (0, 0), report_every }
    }

    /// The message before stream number `stream` gave the worker one thing more.
    pub(super) fn gave(&mut self, stream: u64, instrs: u64, bytes: u64) {
        self.given += 1;
        self.running.push_back(Given { count: self.given, stream, instrs, bytes });
    }

    /// The message before stream number `stream` is done with.
    pub(super) fn passed(&mut self, stream: u64) {
        match self.running.back_mut() {
            Some(last) => last.stream = last.stream.max(stream),
            None => self.executed = self.executed.max(stream),
        }
    }

    /// The worker has run so much of what it was given.
    pub(super) fn ran(&mut self, count: u64) {
        while let Some(given) = self.running.pop_front_if(|given| given.count <= count) {
            self.executed = self.executed.max(given.stream);
            self.unreported.0 += given.instrs;
            self.unreported.1 = self.unreported.1.saturating_add(given.bytes);
        }
    }

    /// The worker's count once all that it was given has run; nothing if it has.
    pub(super) fn last_given(&self) -> Option<u64> {
        self.running.back().map(|given| given.count)
    }

    /// Whether everything has run.
    pub(super) fn is_dry(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether the client waits for credits that it could have by now.
    pub(super) fn is_due(&self) -> bool {
        self.unreported.0 >= self.report_every.0.max(1) || self.unreported.1 >= self.report_every.1.max(1)
    }

    /// What the server does not know yet.
    pub(super) fn take_report(&mut self) -> Option<u64> {
        if self.executed == self.reported {
            return None;
        }
        self.reported = self.executed;
        self.unreported = (0, 0);
        Some(self.executed)
    }

    /// The last report may not have arrived.
    pub(super) fn report_again(&mut self) {
        self.reported = u64::MAX;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_count_with_the_window_before_them() {
        let mut executed = Executed::new(5, (8, 100));
        executed.passed(6);
        assert_eq!(executed.take_report(), Some(6));
        executed.gave(7, 3, 0);
        executed.passed(8);
        executed.passed(9);
        assert!(executed.take_report().is_none() && !executed.is_dry());
        executed.ran(1);
        assert!(executed.is_dry() && !executed.is_due());
        assert_eq!((executed.take_report(), executed.take_report()), (Some(9), None));
        executed.report_again();
        assert_eq!(executed.take_report(), Some(9));
        executed.gave(10, 8, 0);
        executed.ran(2);
        assert!(executed.is_due());
    }

    proptest! {
        #[test]
        fn a_message_is_executed_when_all_before_it_has_run(gives in prop::collection::vec(0u8..3, 1..50)) {
            // 0: gives nothing; 1: gives one thing; 2: something else is given between messages.
            let mut executed = Executed::new(0, (1, 1));
            let (mut stream, mut ends) = (0u64, Vec::new());
            for give in gives {
                match give {
                    0 => { stream += 1; executed.passed(stream); }
                    1 => { stream += 1; executed.gave(stream, 1, 0); ends.push(stream); }
                    _ => { executed.gave(stream, 0, 0); ends.push(stream); }
                }
                if let Some(last) = ends.last_mut() { *last = stream; }
            }
            for (count, end) in ends.iter().enumerate() {
                executed.ran(count as u64 + 1);
                prop_assert_eq!(executed.executed, *end);
            }
            prop_assert!(executed.is_dry());
            prop_assert_eq!(executed.executed, stream);
        }
    }
}
