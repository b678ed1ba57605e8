//! Random messages, from a seed.
//!
//! The invariant here: everything is valid JSON in a frame of its own. Nothing else is promised.

use serde_json::{Map, Value, json};

use crate::double::{thread_answer, turn_event, turn_value};

/// Names that clients look for.
const NAMES: &[&str] = &[
    "id",
    "method",
    "params",
    "result",
    "error",
    "code",
    "message",
    "data",
    "reason",
    "threadId",
    "turnId",
    "itemId",
    "thread",
    "turn",
    "item",
    "items",
    "status",
    "type",
    "delta",
    "decision",
    "sandbox",
    "approvalPolicy",
    "cwd",
    "model",
    "nextCursor",
    "queuedTurn",
    "clientId",
    "requestId",
];

/// Methods of both directions, and some of none.
const METHODS: &[&str] = &[
    "turn/started",
    "turn/completed",
    "item/started",
    "item/completed",
    "item/agentMessage/delta",
    "item/reasoning/summaryTextDelta",
    "item/commandExecution/outputDelta",
    "turn/plan/updated",
    "turn/diff/updated",
    "thread/tokenUsage/updated",
    "thread/status/changed",
    "thread/archived",
    "thread/queue/changed",
    "serverRequest/resolved",
    "connection/lagged",
    "error",
    "warning",
    "hook/started",
    "approval/changed",
    "thread/started",
    "thread/closed",
    "initialize",
    "",
    "odd",
];

const ASKING: &[&str] = &[
    "item/commandExecution/requestApproval",
    "item/fileChange/requestApproval",
    "item/permissions/requestApproval",
    "item/tool/requestUserInput",
    "item/tool/call",
    "mcpServer/elicitation/request",
    "currentTime/read",
    "execCommandApproval",
    "hook/run",
    "applyPatchApproval",
    "attestation/generate",
    "thread/start",
    "",
];

const STATUSES: &[&str] = &[
    "completed",
    "failed",
    "interrupted",
    "inProgress",
    "asleep",
    "",
];

/// A stream of random choices.
#[derive(Debug)]
pub(crate) struct Chaos(u64);

impl Chaos {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The next number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let len = u64::try_from(of.len()).unwrap();
        of[usize::try_from(self.below(len)).unwrap()]
    }

    /// Any JSON, `depth` deep at most.
    fn json(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 8 } else { 14 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.below(u64::MAX)),
            3 => json!(-1.5e300),
            4 => json!(self.one(STATUSES)),
            5 => json!(self.one(NAMES)),
            6 => json!("\u{0}\u{fffd}\u{1f600}".repeat(usize::try_from(self.below(40)).unwrap())),
            7 => self.thread_id(),
            8 | 9 => {
                let len = self.below(4);
                Value::Array((0..len).map(|_| self.json(depth - 1)).collect())
            }
            _ => {
                let len = self.below(7);
                let member = |_| (self.one(NAMES).to_owned(), self.json(depth - 1));
                Value::Object((0..len).map(member).collect::<Map<_, _>>())
            }
        }
    }

    fn thread_id(&mut self) -> Value {
        json!(self.one(&["t", "t", "t", "other", ""]))
    }

    fn turn_id(&mut self) -> String {
        format!("u{}", self.below(6))
    }

    /// An id that may be anything, one in use too.
    fn id(&mut self) -> Value {
        match self.below(8) {
            0 => json!(u64::MAX),
            1 => json!(i64::MIN),
            2 => json!("9".repeat(1 << 12)),
            3 => json!(1e300),
            4 => Value::Null,
            5 => self.json(2),
            _ => json!(self.below(60)),
        }
    }

    /// Something that nobody asked for.
    pub(crate) fn outburst(&mut self) -> Value {
        match self.below(12) {
            0 => self.json(4),
            1 => json!({"id": self.id(), "result": self.json(3)}),
            2 => json!({"id": self.id(), "error": self.json(3)}),
            3 => json!({"id": self.id(), "method": self.one(ASKING), "params": self.json(3)}),
            4 => {
                let params = json!({"threadId": "t", "turnId": self.turn_id(), "itemId": "i",
                    "command": "ls", "questions": self.json(2), "availableDecisions": self.json(2)});
                json!({"id": self.id(), "method": self.one(ASKING), "params": params})
            }
            5 => json!({"method": self.one(METHODS), "params": self.json(4), "seq": self.json(0)}),
            6 | 7 => {
                let turn = self.turn_id();
                let word = self.one(STATUSES);
                let method = self.one(&["turn/started", "turn/completed"]);
                json!({"method": method, "params": turn_event("t", &turn, word)})
            }
            8 => {
                let params =
                    json!({"threadId": "t", "turnId": self.turn_id(), "item": self.json(3)});
                json!({"method": self.one(&["item/started", "item/completed"]), "params": params})
            }
            9 => json!({"method": "thread/status/changed",
                "params": {"threadId": "t", "status": {"type": self.one(&["idle", "active", "odd"])}}}),
            _ => {
                let text = self.one(NAMES);
                let params = json!({"threadId": "t", "turnId": self.turn_id(), "itemId": "i",
                    "delta": text});
                json!({"method": "item/agentMessage/delta", "params": params})
            }
        }
    }

    /// What the server says to a request: nothing, one answer, or several.
    pub(crate) fn answers(&mut self, id: &Value, method: &str) -> Vec<Value> {
        let good = json!({"id": id, "result": self.result(method)});
        let bad = json!({"id": id, "error": {"code": self.below(3), "message": "no", "data": self.json(2)}});
        match self.below(16) {
            0 => vec![],
            1 => vec![json!({"id": id, "result": self.json(4)})],
            2 => vec![bad],
            3 => vec![good.clone(), good],
            4 => vec![good, bad],
            5 => vec![bad, good],
            6 => vec![json!({"id": id.to_string(), "result": {}}), good],
            7 => vec![json!({"id": id, "result": {}, "error": {"code": 1, "message": "both"}})],
            8 => {
                let code = [-32_001, -32_601, -32_600, 7][usize::try_from(self.below(4)).unwrap()];
                let data = json!({"reason": self.one(&["busy", "archived", "overloaded", "odd"])});
                vec![json!({"id": id, "error": {"code": code, "message": "m", "data": data}})]
            }
            _ => vec![good],
        }
    }

    /// A result that fits the method.
    fn result(&mut self, method: &str) -> Value {
        let turn = self.turn_id();
        match method {
            "thread/start" | "thread/resume" => thread_answer("t"),
            "turn/start" => json!({ "turn": turn_value(&turn, "inProgress") }),
            "turn/steer" => json!({ "turnId": turn }),
            "thread/turns/list" => {
                json!({"data": [turn_value(&turn, self.one(STATUSES))], "nextCursor": null})
            }
            "thread/items/list" => json!({"data": [self.json(2)], "nextCursor": null}),
            "thread/queue/add" => json!({"queuedTurn": {"id": "q", "turnId": turn}}),
            "thread/queue/list" => json!({"data": [], "nextCursor": null}),
            _ => json!({}),
        }
    }
}
