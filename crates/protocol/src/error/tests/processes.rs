//! Errors of `command/exec*` and `process/*`.

use super::*;

#[test]
fn refusals_of_commands_and_processes_are_exact() {
    use ProcessFamily::{CommandExec, Process};
    let duplicate = json!({"reason": "duplicateProcess"});
    let unknown = json!({"reason": "processNotFound"});
    let closed = json!({"reason": "stdinClosed"});
    let invalid = json!({"reason": "invalidParams"});
    for (error, message, data) in [
        (
            ErrorObject::empty_command(),
            "command must not be empty",
            &invalid,
        ),
        (
            ErrorObject::process_id_required(),
            "command/exec tty or streaming requires a client-supplied processId",
            &invalid,
        ),
        (
            ErrorObject::empty_process_handle(),
            "processHandle must not be empty",
            &invalid,
        ),
        (
            ErrorObject::not_a_terminal(),
            "failed to resize PTY: process is not attached to a PTY",
            &invalid,
        ),
        (
            ErrorObject::duplicate_process(CommandExec, "p"),
            "duplicate active command/exec process id: \"p\"",
            &duplicate,
        ),
        (
            ErrorObject::duplicate_process(Process, "h"),
            "duplicate active process handle: \"h\"",
            &duplicate,
        ),
        (
            ErrorObject::process_not_found(CommandExec, "p"),
            "no active command/exec for process id \"p\"",
            &unknown,
        ),
        (
            ErrorObject::process_not_found(Process, "h"),
            "no active process for process handle \"h\"",
            &unknown,
        ),
        (
            ErrorObject::process_ended(CommandExec, "p"),
            "command/exec \"p\" is no longer running",
            &unknown,
        ),
        (
            ErrorObject::stdin_not_streamed(CommandExec),
            "stdin streaming is not enabled for this command/exec",
            &closed,
        ),
        (
            ErrorObject::stdin_not_streamed(Process),
            "stdin streaming is not enabled for this process",
            &closed,
        ),
        (
            ErrorObject::stdin_closed(),
            "stdin is already closed",
            &closed,
        ),
        (
            ErrorObject::spawn_disabled(),
            "process/spawn is disabled",
            &json!({"reason": "disabled"}),
        ),
    ] {
        check(vec![row(error, message, data.clone())]);
    }
}

#[test]
fn unfit_params_of_commands_and_processes_are_exact() {
    use ProcessFamily::{CommandExec, Process};
    let wrong = crate::exec_server::Blob::decode("!!").unwrap_err();
    for (error, message) in [
        (
            ErrorObject::nothing_to_write(CommandExec),
            "command/exec/write requires deltaBase64 or closeStdin",
        ),
        (
            ErrorObject::nothing_to_write(Process),
            "process/writeStdin requires deltaBase64 or closeStdin",
        ),
        (
            ErrorObject::invalid_base64(&wrong),
            "invalid deltaBase64: Invalid symbol 33, offset 0.",
        ),
        (
            ErrorObject::empty_terminal(CommandExec),
            "command/exec size rows and cols must be greater than 0",
        ),
        (
            ErrorObject::empty_terminal(Process),
            "process size rows and cols must be greater than 0",
        ),
        (
            ErrorObject::size_without_terminal(CommandExec),
            "command/exec size requires tty: true",
        ),
        (
            ErrorObject::size_without_terminal(Process),
            "process/spawn size requires tty: true",
        ),
        (
            ErrorObject::negative_timeout(CommandExec, -5),
            "command/exec timeoutMs must be non-negative, got -5",
        ),
        (
            ErrorObject::negative_timeout(Process, -3),
            "process/spawn timeoutMs must be non-negative, got -3",
        ),
        (
            ErrorObject::both_set("timeoutMs", "disableTimeout"),
            "command/exec cannot set both timeoutMs and disableTimeout",
        ),
    ] {
        let data = json!({"reason": "invalidParams"});
        check(vec![(error, INVALID_PARAMS, message.to_owned(), data)]);
    }
    for (family, message) in [
        (CommandExec, "failed to spawn command: gone"),
        (Process, "failed to spawn process: gone"),
    ] {
        let error = ErrorObject::spawn_failed(family, "gone");
        let data = json!({"reason": "spawnFailed"});
        check(vec![(error, INTERNAL_ERROR, message.to_owned(), data)]);
    }
}
