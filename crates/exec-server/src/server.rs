//! The server: connections, dialects, sessions.
