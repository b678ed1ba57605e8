//! The methods that programs call most, for [`Client::call`](crate::Client::call).
//!
//! The invariant here: answers are read leniently, with ids of any text and unknown members left out
//! of the way; what is too various for a type is plain JSON. Only methods that change nothing say that
//! they may be sent twice.

use serde_json::Value;
use turnlane_protocol::method as wire;

use super::Method;
use crate::thread::{ItemPage, SkillsList, ThreadIdPage, ThreadPage, ThreadView, TurnPage};

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident = $method:literal, $reads:literal: $params:ty => $output:ty;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name;

            impl Method for $name {
                const NAME: &'static str = $method;
                const READS: bool = $reads;
                type Params = $params;
                type Output = $output;
            }
        )*

        /// Every method here, with whether it only reads.
        #[cfg(test)]
        const ALL: &[(&str, bool)] = &[$(($method, $reads),)*];
    };
}

methods! {
    /// Makes a thread. Nothing is checked by the gate here: see [`crate::Threads::start`].
    ThreadStart = "thread/start", false: Value => Value;
    /// Opens a thread. Nothing is checked by the gate here: see [`crate::Threads::resume`].
    ThreadResume = "thread/resume", false: Value => Value;
    /// Makes a thread of another one. Nothing is checked by the gate here: see
    /// [`crate::Threads::fork`].
    ThreadFork = "thread/fork", false: Value => Value;
    /// Shows a thread.
    ThreadRead = "thread/read", true: wire::ThreadReadParams => ThreadView;
    /// Finds threads.
    ThreadList = "thread/list", true: wire::ThreadListParams => ThreadPage;
    /// Lists the threads that the server has open.
    ThreadLoadedList = "thread/loaded/list", true: wire::ThreadLoadedListParams => ThreadIdPage;
    /// Lists the turns of a thread.
    ThreadTurnsList = "thread/turns/list", true: wire::ThreadTurnsListParams => TurnPage;
    /// Lists the items of a thread.
    ThreadItemsList = "thread/items/list", true: wire::ThreadItemsListParams => ItemPage;
    /// Puts a thread away.
    ThreadArchive = "thread/archive", false: wire::ThreadArchiveParams => Value;
    /// Takes a thread back.
    ThreadUnarchive = "thread/unarchive", false: wire::ThreadUnarchiveParams => ThreadView;
    /// Removes a thread with its history.
    ThreadDelete = "thread/delete", false: wire::ThreadDeleteParams => Value;
    /// Names a thread.
    ThreadNameSet = "thread/name/set", false: wire::ThreadNameSetParams => Value;
    /// Ends this connection's subscription to a thread.
    ThreadUnsubscribe = "thread/unsubscribe", false: wire::ThreadUnsubscribeParams => Value;
    /// Takes a turn and all later ones out of the history.
    ThreadRevert = "thread/revert", false: wire::ThreadRevertParams => ThreadView;
    /// Sums the history up for the model.
    ThreadCompactStart = "thread/compact/start", false: wire::ThreadCompactStartParams => Value;
    /// Gives a thread something to do. Nothing is checked by the gate here: see
    /// [`crate::Thread::turn`].
    TurnStart = "turn/start", false: Value => Value;
    /// Says more to the turn that runs.
    TurnSteer = "turn/steer", false: wire::TurnSteerParams => Value;
    /// Stops a turn.
    TurnInterrupt = "turn/interrupt", false: wire::TurnInterruptParams => Value;
    /// Lists what waits in a lane.
    ThreadQueueList = "thread/queue/list", true: Value => Value;
    /// Lists models.
    ModelList = "model/list", true: wire::ModelListParams => Value;
    /// Lists the skills of some directories.
    SkillsListing = "skills/list", true: wire::SkillsListParams => SkillsList;
    /// Lists the hooks of some directories.
    HooksList = "hooks/list", true: wire::HooksListParams => Value;
    /// Shows the configuration.
    ConfigRead = "config/read", true: wire::ConfigReadParams => Value;
    /// Shows the account.
    AccountRead = "account/read", true: wire::AccountReadParams => Value;
    /// Runs a command under a sandbox; answered when it has ended.
    CommandExec = "command/exec", false: wire::CommandExecParams => wire::CommandExecAnswer;
    /// Writes to the input of a command.
    CommandExecWrite = "command/exec/write", false: wire::CommandExecWriteParams => Value;
    /// Gives the terminal of a command another size.
    CommandExecResize = "command/exec/resize", false: wire::CommandExecResizeParams => Value;
    /// Ends a command.
    CommandExecTerminate = "command/exec/terminate", false: wire::CommandExecTerminateParams => Value;
    /// Lists the open approvals; Turnlane only.
    ApprovalList = "approval/list", true: Value => Value;
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn only_methods_that_show_something_may_be_sent_twice() {
        for (method, reads) in ALL {
            let shows = method.ends_with("/list") || method.ends_with("/read");
            assert_eq!(*reads, shows, "{method}");
        }
    }
}
