//! The errors of the Responses API, each in the three forms in which it can arrive.
//!
//! An [`ApiError`] is only data: as an HTTP answer it is [`Reply::http_error`], inside a stream
//! [`Reply::failed`] (`response.failed`) or [`Reply::error_event`] (`error`). The invariant here:
//! one error has the same code, type and message in all three forms, so a test can show that a
//! client tells the same story about each. What a client should do about it is not known here.
//!
//! [`Reply::http_error`]: super::Reply::http_error
//! [`Reply::failed`]: super::Reply::failed
//! [`Reply::error_event`]: super::Reply::error_event

use serde_json::{Map, Value, json};

/// An error as a provider words it.
#[derive(Clone, Debug)]
pub struct ApiError {
    /// The HTTP status of the HTTP form.
    pub status: u16,
    /// `error.type`.
    pub kind: String,
    /// `error.code`.
    pub code: Option<String>,
    /// `error.message`.
    pub message: String,
    /// `error.param`.
    pub param: Option<String>,
    /// Further members of `error`, such as `resets_at`.
    pub more: Map<String, Value>,
    /// Headers of the HTTP form.
    pub headers: Vec<(String, String)>,
}

impl ApiError {
    /// An error with only the parts every error has.
    pub fn new(status: u16, kind: &str, message: &str) -> Self {
        Self {
            status,
            kind: kind.to_owned(),
            code: None,
            message: message.to_owned(),
            param: None,
            more: Map::new(),
            headers: Vec::new(),
        }
    }

    /// 400: the request is wrong, `param` names the part.
    pub fn bad_request(param: &str, message: &str) -> Self {
        let mut error = Self::new(400, "invalid_request_error", message);
        error.param = Some(param.to_owned());
        error
    }

    /// 401: the key is missing or wrong.
    pub fn unauthorized() -> Self {
        let message = "Incorrect API key provided: mock-***";
        Self::new(401, "invalid_request_error", message).code("invalid_api_key")
    }

    /// 403: the key may not do this.
    pub fn forbidden() -> Self {
        let message = "This project may not use the model";
        Self::new(403, "invalid_request_error", message).code("permission_denied")
    }

    /// 404: no such model.
    pub fn model_not_found(model: &str) -> Self {
        let message =
            format!("The model `{model}` does not exist or you do not have access to it.");
        Self::new(404, "invalid_request_error", &message).code("model_not_found")
    }

    /// 429: too many requests. The wait stands in the text, as providers word it; see
    /// [`ApiError::retry_after_s`] for the header.
    pub fn rate_limited() -> Self {
        let message = "Rate limit reached for mock-model on tokens per min (TPM): Limit 30000. \
                       Please try again in 0.1s.";
        Self::new(429, "tokens", message).code("rate_limit_exceeded")
    }

    /// 429: the account has no money left.
    pub fn insufficient_quota() -> Self {
        let message =
            "You exceeded your current quota, please check your plan and billing details.";
        Self::new(429, "insufficient_quota", message).code("insufficient_quota")
    }

    /// 429: the plan's limit is used up until `resets_at_s`, in seconds since 1970.
    pub fn usage_limit_reached(resets_at_s: u64) -> Self {
        Self::new(
            429,
            "usage_limit_reached",
            "The usage limit has been reached",
        )
        .code("usage_limit_reached")
        .with("plan_type", "plus")
        .with("resets_at", resets_at_s)
    }

    /// 429: the plan does not include this.
    pub fn usage_not_included() -> Self {
        let message = "Your plan does not include this";
        Self::new(429, "usage_not_included", message).code("usage_not_included")
    }

    /// 400: the input is longer than the model's window.
    pub fn context_length_exceeded() -> Self {
        let message = "Your input exceeds the context window of this model. \
                       Please adjust your input and try again.";
        Self::bad_request("input", message).code("context_length_exceeded")
    }

    /// 400: the provider refuses the prompt.
    pub fn invalid_prompt() -> Self {
        Self::bad_request("input", "Invalid prompt: your prompt was flagged").code("invalid_prompt")
    }

    /// 500: the provider failed.
    pub fn server_error() -> Self {
        let message = "The server had an error while processing your request";
        Self::new(500, "server_error", message).code("server_error")
    }

    /// 503: the provider has too much to do.
    pub fn overloaded() -> Self {
        let message = "Our servers are currently overloaded. Please try again later.";
        Self::new(503, "service_unavailable_error", message).code("server_is_overloaded")
    }

    /// The same error with this `error.code`.
    #[must_use]
    pub fn code(mut self, code: &str) -> Self {
        self.code = Some(code.to_owned());
        self
    }

    /// The same error with one more member.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.more.insert(key.to_owned(), value.into());
        self
    }

    /// The same error with one more header in its HTTP form.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same error with `Retry-After` in seconds.
    #[must_use]
    pub fn retry_after_s(self, seconds: u64) -> Self {
        self.header("retry-after", &seconds.to_string())
    }

    /// The body of the HTTP form.
    pub(super) fn body(&self) -> Value {
        json!({"error": self.object(json!({"type": self.kind, "param": self.param}))})
    }

    /// The `error` member of a failed response.
    pub(super) fn failure(&self) -> Value {
        // A failed response repeats the type only where the HTTP form needs it too: plan limits.
        let base = if self.more.is_empty() {
            json!({})
        } else {
            json!({"type": self.kind})
        };
        self.object(base)
    }

    /// The `error` event, without its sequence number.
    pub(super) fn event(&self) -> Value {
        self.object(json!({"type": "error", "param": self.param}))
    }

    fn object(&self, base: Value) -> Value {
        let mut object = self.more.clone();
        object.insert("code".to_owned(), json!(self.code));
        object.insert("message".to_owned(), json!(self.message));
        if let Value::Object(base) = base {
            object.extend(base);
        }
        Value::Object(object)
    }
}
