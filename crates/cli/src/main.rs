//! The `turnlane` command: arguments in, output for people out, nothing else.
//!
//! Whatever a command does is done by another crate; this one parses, calls, prints and turns an
//! error into one readable line and an exit code: 0 done, 1 refused or failed, 2 wrong usage.
//! Standard output is for results only, so that it can be piped; logs and errors go to standard
//! error.

#![forbid(unsafe_code)]

mod args;
mod assembly;
mod commands;
mod config;
mod defaults;
mod home;
mod linked;
mod logging;
mod peers;
mod runtime;
mod session;
mod shown;
mod signals;

use std::process::ExitCode;

use args::{AppServerCommand, Args, Command};
use logging::Weight;

fn main() -> ExitCode {
    // First: this program is also the keeper of the processes it starts.
    turnlane_process::keeper_hook();
    turnlane_process::bound_arenas();
    let args = Args::of_this_process();
    let usual = match &args.command {
        Command::Serve(serve) if serve.command.is_none() => logging::DAEMON,
        Command::Shim(_) => logging::SHIM,
        Command::Fanout(_) => logging::JOBS,
        _ => logging::QUIET,
    };
    match logging::start(usual).and_then(|()| run(args)) {
        Ok(code) => code,
        // Whoever reads a part, such as `head`, has what it wanted.
        Err(error) if shown::is_unread(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // The alternate form joins the whole chain of causes in one line.
            let _ = logging::announce(Weight::Error, &format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<ExitCode> {
    // What is given before the command comes first, so that what is given after it wins.
    let config = |after: &[String]| [&args.config, after].concat();
    match args.command {
        Command::AppServer(app_server) => match &app_server.command {
            Some(AppServerCommand::GenerateJsonSchema(options)) => {
                commands::schema::generate(options)?;
            }
            None => commands::app_server::run(&app_server, &config(&app_server.config))?,
        },
        Command::Serve(serve) => return commands::serve::run(&serve, &config(&serve.config)),
        Command::ExecServer(options) => {
            let config = config(&options.config);
            commands::exec_server::run(*options, &config)?;
        }
        Command::Shim(options) => {
            let config = config(&options.config);
            return Ok(commands::shim::run(&options, &config));
        }
        Command::Exec(options) => {
            return Ok(commands::exec::run(*options, &args.config));
        }
        Command::Run(options) => return Ok(commands::run::run(*options, &args.config)),
        // The arguments refuse settings that could have no effect, here and below.
        Command::Status(options) => return commands::status::run(&options),
        Command::Thread(options) => return commands::thread::run(options),
        Command::Queue(options) => return commands::queue::run(*options, &args.config),
        Command::Fanout(options) => return commands::fanout::run(*options, &args.config),
        Command::Approvals(options) => return commands::approvals::run(options),
        Command::Shortcut(shortcut) => {
            return commands::thread::run(shortcut.whole());
        }
        Command::Demo(options) => return commands::demo::run(&options),
        Command::Store(options) => return commands::store::run(options),
        Command::Doctor(options) => {
            let config = config(&options.config);
            return commands::doctor::run(&options, &config);
        }
        Command::Completions(options) => commands::completions::run(&options)?,
        Command::Man(options) => commands::man::run(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}
