//! For any hooks: what comes out is what a fold over their answers gives.

use proptest::prelude::*;

use super::*;

/// What a hook says in every phase.
#[derive(Clone, Debug)]
enum Says {
    Noop,
    Prompt(String),
    Model(String),
    Metadata(u8, u8),
    Block(String),
    Fails(OnFailure),
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        3 => Just(Says::Noop),
        3 => "[a-z]{1,4}".prop_map(Says::Prompt),
        2 => "[a-z]{1,4}".prop_map(Says::Model),
        3 => (0_u8..4, any::<u8>()).prop_map(|(key, value)| Says::Metadata(key, value)),
        1 => "[a-z]{1,4}".prop_map(Says::Block),
        1 => Just(Says::Fails(OnFailure::Allow)),
        1 => Just(Says::Fails(OnFailure::Block)),
    ]
}

impl Says {
    fn action(&self, context: &HookContext) -> Result<HookAction, HookIssue> {
        let patch = match self {
            Self::Noop => return Ok(HookAction::Noop),
            Self::Block(message) => return Ok(block(message)),
            Self::Fails(_) => {
                return Err(HookIssue {
                    hook: String::new(),
                    phase: context.phase,
                    class: IssueClass::Execution,
                    message: "broken".to_owned(),
                });
            }
            // Sees what those before it made of the prompt.
            Self::Prompt(word) => HookPatch {
                prompt: Some(format!("{} {word}", context.prompt.as_deref().unwrap())),
                ..HookPatch::default()
            },
            Self::Model(model) => HookPatch {
                model: Some(model.clone()),
                ..HookPatch::default()
            },
            Self::Metadata(key, value) => HookPatch {
                metadata: [(key.to_string(), json!(value))].into_iter().collect(),
                ..HookPatch::default()
            },
        };
        Ok(HookAction::Mutate(patch))
    }
}

/// What should come out.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    prompt: String,
    model: String,
    metadata: Map<String, Value>,
    asked: usize,
    blocked: Option<String>,
    issues: usize,
}

fn expected(hooks: &[Says]) -> Expected {
    let mut out = Expected {
        prompt: "p".to_owned(),
        model: "mini".to_owned(),
        ..Expected::default()
    };
    for phase in ["PreRun", "PreTurn"] {
        for (n, says) in hooks.iter().enumerate() {
            out.asked += 1;
            match says {
                Says::Noop => {}
                Says::Prompt(word) => out.prompt = format!("{} {word}", out.prompt),
                Says::Model(model) => out.model.clone_from(model),
                Says::Metadata(key, value) => {
                    out.metadata.insert(key.to_string(), json!(value));
                }
                Says::Block(message) => {
                    out.blocked = Some(format!("blocked by hook 'h{n}' at {phase}: {message}"));
                    return out;
                }
                Says::Fails(OnFailure::Allow) => out.issues += 1,
                Says::Fails(OnFailure::Block) => {
                    out.issues += 1;
                    let message = "hook failed (execution): broken";
                    out.blocked = Some(format!("blocked by hook 'h{n}' at {phase}: {message}"));
                    return out;
                }
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn changes_compose_in_order_and_the_first_no_is_final(
        hooks in proptest::collection::vec(says(), 0..8),
    ) {
        let log = Log::default();
        let mut set = HookSet::new();
        for (n, says) in hooks.iter().enumerate() {
            let (script, on_failure) = (says.clone(), match says {
                Says::Fails(on_failure) => *on_failure,
                _ => OnFailure::Block,
            });
            let hook = scripted(&log, &format!("h{n}"), move |context| script.action(context));
            let pre = Matcher::phases([HookPhase::PreRun, HookPhase::PreTurn]);
            set = set.on(pre, Scripted { on_failure, ..hook });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut runner = runner(&set);
        let mut asked = subject("p");
        let blocked = runtime.block_on(runner.before_turn(&mut asked)).err();
        let out = Expected {
            prompt: patch::words(asked.input.items()).unwrap(),
            model: asked.model.unwrap(),
            metadata: asked.metadata,
            asked: log.lock().unwrap().len(),
            blocked: blocked.map(|block| block.to_string()),
            issues: runner.report().issues.len(),
        };
        prop_assert_eq!(out, expected(&hooks));
        // Whoever was selected has a run, asked or not.
        let phases = if runner.report().runs.iter().any(|run| run.phase == HookPhase::PreTurn) {
            2
        } else {
            1
        };
        prop_assert_eq!(runner.report().runs.len(), hooks.len() * phases);
    }
}
