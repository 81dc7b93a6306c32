//! A command line written out again from what was understood.

use std::ffi::{OsStr, OsString};

use clap::ValueEnum;
use groom_ns::cli::{BrokerArgs, Command, Limits, Setup, SetupWhat};

/// None for what isn't a command.
pub fn words(command: &Command) -> Option<Vec<OsString>> {
    let mut line = Line(Vec::new());
    match command {
        Command::Print(_) | Command::Probe(_) => return None,
        Command::Prove(prove) => {
            line.word("prove");
            line.switch("--json", prove.json);
        }
        Command::Check(check) => {
            line.word("check");
            line.switch("--json", check.json);
        }
        Command::Setup(Setup {
            what: SetupWhat::Apparmor(apparmor),
        }) => {
            line.word("setup");
            line.word("apparmor");
            line.switch("--print", apparmor.print);
            line.flag("--path", &apparmor.path);
            line.switch("--install", apparmor.install);
            line.switch("--remove", apparmor.remove);
            line.switch("--json-errors", apparmor.json_errors);
        }
        Command::Verify(verify) => {
            line.word("verify");
            line.flag("--policy", Some(&verify.policy));
            line.switch("--json", verify.json);
            line.word("--");
            line.word(&verify.receipt);
        }
        Command::Shim(shim) => {
            line.word("shim");
            line.switch("--json-errors", shim.json_errors);
            line.word("--");
            line.word(shim.port.to_string());
            line.word(&shim.socket);
        }
        Command::Broker(broker) => {
            line.word("broker");
            line.flag("--listen", Some(&broker.listen));
            line.args(&broker.args);
            line.flag("--ready-fd", broker.ready_fd.map(|fd| fd.to_string()));
            line.flag("--peer-uid", broker.peer_uid.map(|uid| uid.to_string()));
            line.flag("--token-file", broker.token_file.as_ref());
            line.flag("--log", broker.log.as_ref());
            line.switch("--json-errors", broker.json_errors);
            line.word(name(&broker.provider));
        }
        Command::Run(run) => {
            line.word("run");
            line.flag("--profile", run.profile.as_ref());
            line.flag("--clone", run.clone.as_ref());
            line.flag("--clone-mode", Some(name(&run.clone_mode)));
            line.switch("--git-worktree", run.git_worktree);
            line.flag("--out-dir", run.out_dir.as_ref());
            line.flag("--ro-file", &run.ro_files);
            line.flag("--env", &run.env);
            line.flag("--uds", run.uds.as_ref());
            line.flag("--broker", run.broker.as_ref().map(name));
            line.args(&run.broker_args);
            line.flag("--shim-port", run.shim_port.map(|port| port.to_string()));
            line.flag("--broker-log", run.broker_log.as_ref());
            line.flag("--receipt", run.receipt.as_ref());
            line.flag("--status-fd", run.status_fd.map(|fd| fd.to_string()));
            line.flag("--landlock", Some(name(&run.landlock)));
            line.switch("--allow-ptrace", run.allow_ptrace);
            line.switch("--tty", run.tty);
            line.switch("--no-tty", run.no_tty);
            line.flag("--timeout", run.timeout.as_ref());
            line.flag("--grace", run.grace.as_ref());
            line.switch("--explain-denials", run.explain_denials);
            line.limits(&run.limits);
            line.flag("--plan", run.plan.as_ref().map(name));
            line.switch("--json-errors", run.json_errors);
            line.switch("--quiet", run.quiet);
            line.switch("--verbose", run.verbose);
            line.word("--");
            run.command.iter().for_each(|word| line.word(word));
        }
    }
    Some(line.0)
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().unwrap().get_name().to_owned()
}

struct Line(Vec<OsString>);

impl Line {
    fn word(&mut self, word: impl AsRef<OsStr>) {
        self.0.push(word.as_ref().to_owned());
    }

    fn switch(&mut self, flag: &str, is_on: bool) {
        self.0.extend(is_on.then(|| flag.into()));
    }

    fn flag(&mut self, flag: &str, values: impl IntoIterator<Item = impl AsRef<OsStr>>) {
        for value in values {
            let mut word = OsString::from(format!("{flag}="));
            word.push(value);
            self.0.push(word);
        }
    }

    fn limits(&mut self, limits: &Limits) {
        self.flag("--memory", limits.memory.as_ref());
        self.flag("--pids", limits.pids.as_ref());
        self.flag("--cpus", limits.cpus.as_ref());
        self.flag("--tmp-size", limits.tmp_size.as_ref());
        self.flag("--file-size", limits.file_size.as_ref());
        self.flag("--max-output", limits.max_output.as_ref());
    }

    fn args(&mut self, args: &BrokerArgs) {
        self.flag("--upstream", args.upstream.as_ref());
        self.flag("--upstream-ca", args.upstream_ca.as_ref());
        self.switch("--key-stdin", args.key.key_stdin);
        self.flag("--key-file", args.key.key_file.as_ref());
        self.flag("--key-fd", args.key.key_fd.map(|fd| fd.to_string()));
        self.flag("--key-env", args.key.key_env.as_ref());
        self.flag("--auth-header", args.auth_header.as_ref());
        self.flag("--allow-route", &args.allow_routes);
    }
}
