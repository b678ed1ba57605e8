//! The table of events, row by row.

use super::{e, event, rows};
use serde_json::json;

rows! {
    an_answer_that_began_has_shown_nothing: [
        e!("created", {"response": {"id": "resp_1", "status": "in_progress"}}),
        e!("queued", {"response": {"id": "resp_1"}}),
        e!("in_progress", {"response": {"id": "resp_1"}}),
        e!("completed", {"response": {"id": "resp_1"}}),
    ] => ["completed"];

    added_items_are_opened_and_calls_are_not_shown: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "reasoning", "id": "rs"}}),
        e!("output_item.added", {"output_index": 1, "item": {"type": "message", "id": "m", "phase": "commentary"}}),
        e!("output_item.added", {"output_index": 2, "item": {"type": "function_call", "id": "f", "call_id": "c", "name": "exec"}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: reasoning [] []",
        "i2 opened: message \"\" Commentary",
        "i1 completed at 0, not replayed: reasoning [] []",
        "i2 completed at 1, not replayed: message \"\" Commentary",
        "call c at 2: exec({})",
        "completed",
    ];

    deltas_of_text_and_refusal_are_given_out_one_by_one: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "message", "id": "m"}}),
        e!("output_text.delta", {"output_index": 0, "content_index": 0, "delta": "h\u{e9}"}),
        e!("output_text.delta", {"output_index": 0, "content_index": 0, "delta": "llo \u{1f980}"}),
        e!("refusal.delta", {"output_index": 0, "content_index": 1, "delta": ", no"}),
        e!("output_item.done", {"output_index": 0, "item": {"type": "message", "id": "m", "content": [
            {"type": "output_text", "text": "h\u{e9}llo \u{1f980}"}, {"type": "refusal", "refusal": ", no"}]}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"h\u{e9}\"",
        "i1 + \"llo \u{1f980}\"",
        "i1 + \", no\"",
        "i1 completed at 0, replayed: message \"h\u{e9}llo \u{1f980}, no\"",
        "completed",
    ];

    the_text_of_a_done_event_replaces_what_was_added_up: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "message", "id": "m"}}),
        e!("content_part.added", {"output_index": 0, "content_index": 0, "part": {"type": "output_text", "text": ""}}),
        e!("output_text.delta", {"output_index": 0, "content_index": 0, "delta": "wrng"}),
        e!("output_text.done", {"output_index": 0, "content_index": 0, "text": "right"}),
        e!("refusal.delta", {"output_index": 0, "content_index": 1, "delta": "n"}),
        e!("refusal.done", {"output_index": 0, "content_index": 1, "refusal": " no"}),
        e!("content_part.done", {"output_index": 0, "content_index": 2, "part": {"type": "output_text", "text": " more"}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"wrng\"",
        "i1 + \"n\"",
        "i1 completed at 0, replayed: message \"right no more\"",
        "completed",
    ];

    only_further_parts_of_a_summary_are_announced: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "reasoning", "id": "rs"}}),
        e!("reasoning_summary_part.added", {"output_index": 0, "summary_index": 0}),
        e!("reasoning_summary_part.added", {"output_index": 0, "summary_index": 1}),
        e!("output_item.done", {"output_index": 0, "item": {"type": "reasoning", "id": "rs"}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: reasoning [] []",
        "i1 summary part 1",
        "i1 completed at 0, not replayed: reasoning [] []",
        "completed",
    ];

    a_summary_grows_under_both_names_and_a_missing_index_is_0: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "reasoning", "id": "rs"}}),
        e!("reasoning_summary_text.delta", {"output_index": 0, "delta": "a"}),
        e!("reasoning_summary.delta", {"output_index": 0, "summary_index": 0, "delta": {"text": "b"}}),
        e!("reasoning_summary_text.delta", {"output_index": 0, "summary_index": 1, "delta": "c"}),
        e!("output_item.done", {"output_index": 0, "item": {"type": "reasoning", "id": "rs", "encrypted_content": "gA",
            "summary": [{"type": "summary_text", "text": "ab"}, {"type": "summary_text", "text": "c"}]}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: reasoning [] []",
        "i1 summary 0 + \"a\"",
        "i1 summary 0 + \"b\"",
        "i1 summary 1 + \"c\"",
        "i1 completed at 0, replayed: reasoning [\"ab\", \"c\"] []",
        "completed",
    ];

    thoughts_grow_under_both_names: [
        e!("reasoning_text.delta", {"output_index": 0, "content_index": 0, "delta": "a"}),
        e!("reasoning.delta", {"output_index": 0, "content_index": 1, "delta": "b"}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: reasoning [] []",
        "i1 thought 0 + \"a\"",
        "i1 thought 1 + \"b\"",
        "i1 completed at 0, not replayed: reasoning [] [\"a\", \"b\"]",
        "completed",
    ];

    arguments_and_input_add_up_and_their_done_event_wins: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "function_call", "call_id": "c1", "name": "exec"}}),
        e!("function_call_arguments.delta", {"output_index": 0, "delta": "{\"a\""}),
        e!("function_call_arguments.delta", {"output_index": 0, "delta": ":1}"}),
        e!("output_item.added", {"output_index": 1, "item": {"type": "function_call", "call_id": "c2", "name": "exec"}}),
        e!("function_call_arguments.delta", {"output_index": 1, "delta": "{\"b"}),
        e!("function_call_arguments.done", {"output_index": 1, "arguments": "{\"b\":2}"}),
        e!("function_call_arguments.delta", {"output_index": 1, "delta": "late"}),
        e!("output_item.added", {"output_index": 2, "item": {"type": "custom_tool_call", "call_id": "c3", "name": "patch"}}),
        e!("custom_tool_call_input.delta", {"output_index": 2, "delta": "*** "}),
        e!("custom_tool_call_input.delta", {"output_index": 2, "delta": "Begin"}),
        e!("output_item.added", {"output_index": 3, "item": {"type": "custom_tool_call", "call_id": "c4", "name": "patch"}}),
        e!("custom_tool_call_input.delta", {"output_index": 3, "delta": "x"}),
        e!("custom_tool_call_input.done", {"output_index": 3, "input": "y"}),
        e!("completed", {"response": {}}),
    ] => [
        "call c1 at 0: exec({\"a\":1})",
        "call c2 at 1: exec({\"b\":2})",
        "call c3 at 2: patch(*** Begin)",
        "call c4 at 3: patch(y)",
        "completed",
    ];

    a_done_item_is_the_authority_and_calls_wait_for_the_end: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "message", "id": "m"}}),
        e!("output_text.delta", {"output_index": 0, "delta": "hal"}),
        e!("output_item.done", {"output_index": 0, "item": {"type": "message", "id": "m", "phase": "final_answer",
            "content": [{"type": "output_text", "text": "hallo"}]}}),
        e!("output_item.added", {"output_index": 1, "item": {"type": "function_call", "call_id": "c", "name": "exec"}}),
        e!("function_call_arguments.delta", {"output_index": 1, "delta": "{}"}),
        e!("output_item.done", {"output_index": 1, "item": {"type": "function_call", "call_id": "c", "name": "exec", "arguments": "{\"cmd\":\"ls\"}"}}),
        e!("output_item.done", {"output_index": 2, "item": {"type": "message", "id": "n",
            "content": [{"type": "output_text", "text": "after"}]}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"hal\"",
        "i1 completed at 0, replayed: message \"hallo\" FinalAnswer",
        "i2 opened: message \"after\"",
        "i2 completed at 2, replayed: message \"after\"",
        "call c at 1: exec({\"cmd\":\"ls\"})",
        "completed",
    ];

    a_completed_answer_tells_what_it_used: [
        e!("completed", {"response": {"id": "r", "status": "completed", "usage": {
            "input_tokens": 100, "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 7},
            "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 5}}}}),
    ] => ["usage 120 = 100 (40 cached, 7 written) + 20 (5 reasoning)", "completed"];

    response_done_ends_an_answer_as_well: [
        e!("done", {"response": {"end_turn": false, "usage": {"total_tokens": 9}}}),
    ] => ["usage 9 = 0 (0 cached, 0 written) + 0 (0 reasoning)", "completed, end of turn false"];

    a_completed_event_obeys_a_failed_response: [
        e!("output_item.done", {"output_index": 0, "item": {"type": "function_call", "call_id": "c", "name": "exec"}}),
        e!("completed", {"response": {"status": "failed", "error": {"code": "server_error"}, "usage": {"input_tokens": 1}}}),
    ] => ["usage 1 = 1 (0 cached, 0 written) + 0 (0 reasoning)", "failed: {\"code\":\"server_error\"}"];

    a_completed_event_obeys_an_incomplete_response: [
        e!("done", {"response": {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}}),
    ] => ["incomplete: content_filter, 0 calls dropped"];

    an_incomplete_answer_keeps_its_text_and_drops_its_calls: [
        e!("output_text.delta", {"output_index": 0, "delta": "so far"}),
        e!("output_item.done", {"output_index": 1, "item": {"type": "function_call", "call_id": "c", "name": "exec"}}),
        e!("incomplete", {"response": {"incomplete_details": {"reason": "max_output_tokens"}}}),
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"so far\"",
        "i1 completed at 0, replayed: message \"so far\"",
        "incomplete: max_output_tokens, 1 calls dropped",
    ];

    an_incomplete_answer_may_lack_its_reason: [
        e!("incomplete"),
    ] => ["incomplete: unknown, 0 calls dropped"];

    a_failed_answer_leaves_its_items_open: [
        e!("output_text.delta", {"output_index": 0, "delta": "so"}),
        e!("failed", {"response": {"status": "failed", "error": {"code": "rate_limit_exceeded"}}}),
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"so\"",
        "failed: {\"code\":\"rate_limit_exceeded\"}",
        "i1 left open: message \"so\"",
    ];

    a_cancelled_answer_failed: [
        e!("cancelled", {"response": {"error": null}, "error": {"message": "gone"}}),
    ] => ["failed: {\"message\":\"gone\"}"];

    an_error_event_may_be_the_error_itself: [
        event("error", json!({"code": "slow_down", "message": "later"})),
    ] => ["failed: {\"code\":\"slow_down\",\"message\":\"later\",\"type\":\"error\"}"];

    an_error_event_may_hold_the_error: [
        event("error", json!({"error": {"code": 429}})),
    ] => ["failed: {\"code\":429}"];

    data_with_an_error_object_ends_an_answer_whatever_its_type: [
        "data: {\"error\":{\"code\":502,\"message\":\"up\"}}\n\n",
        e!("completed", {"response": {}}),
    ] => ["failed: {\"code\":502,\"message\":\"up\"}"];

    data_with_nothing_but_an_error_text_failed: [
        "data: {\"error\":\"model is gone\"}\n\n",
    ] => ["failed: \"model is gone\""];

    everything_else_is_ignored: [
        e!("metadata", {"metadata": {}}),
        e!("output_text.annotation.added", {"output_index": 0, "annotation": {}}),
        e!("web_search_call.searching", {"output_index": 0, "item_id": "ws"}),
        event("vendor.ping", json!({"cost": 1})),
        "data: {}\n\n",
        ": a comment\n\n",
        "data: [DONE]\n\n",
        e!("completed", {"response": {}}),
    ] => ["completed"];

    the_event_line_is_the_kind_if_the_data_has_none: [
        "event: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\n",
        "event: wrong\ndata: {\"type\":\"response.completed\",\ndata: \"response\":{}}\n\n",
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"a\"",
        "i1 completed at 0, replayed: message \"a\"",
        "completed",
    ];

    a_web_search_is_shown_when_it_is_done: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "web_search_call", "id": "ws"}}),
        e!("output_item.done", {"output_index": 0, "item": {"type": "web_search_call", "id": "ws", "action": {"type": "search", "query": "rain"}}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: search \"rain\"",
        "i1 completed at 0, replayed: search \"rain\"",
        "completed",
    ];

    calls_never_offered_make_one_warning: [
        e!("output_item.done", {"output_index": 0, "item": {"type": "image_generation_call", "id": "a"}}),
        e!("output_item.done", {"output_index": 1, "item": {"type": "local_shell_call", "id": "b"}}),
        e!("output_item.done", {"output_index": 2, "item": {"type": "compaction", "id": "c"}}),
        e!("completed", {"response": {}}),
    ] => [
        "warning: the provider ran image_generation_call, which was not offered; it is left out",
        "completed",
    ];

    reasoning_that_shows_nothing_is_only_kept: [
        e!("output_item.done", {"output_index": 0, "item": {"type": "reasoning", "encrypted_content": "gA", "summary": []}}),
        e!("output_item.done", {"output_index": 1, "item": {"type": "reasoning", "summary": []}}),
        e!("completed", {"response": {}}),
    ] => [
        "kept at 0: {\"encrypted_content\":\"gA\",\"summary\":[],\"type\":\"reasoning\"}",
        "completed",
    ];
}
