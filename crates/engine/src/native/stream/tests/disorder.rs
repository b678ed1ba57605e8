//! The table of disorders, row by row.

use super::{e, rows};

rows! {
    an_item_is_found_by_its_index_before_its_id: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "message", "id": "same"}}),
        e!("output_item.added", {"output_index": 1, "item": {"type": "message", "id": "same"}}),
        e!("output_text.delta", {"output_index": 1, "item_id": "same", "delta": "second"}),
        e!("output_text.delta", {"output_index": 0, "item_id": "other", "delta": "first"}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: message \"\"",
        "i2 opened: message \"\"",
        "i2 + \"second\"",
        "i1 + \"first\"",
        "i1 completed at 0, replayed: message \"first\"",
        "i2 completed at 1, replayed: message \"second\"",
        "completed",
    ];

    without_an_index_an_item_is_found_by_its_id: [
        e!("output_item.added", {"item": {"type": "message", "id": "a"}}),
        e!("output_item.added", {"item": {"type": "message", "id": "b"}}),
        e!("output_text.delta", {"item_id": "a", "delta": "first"}),
        e!("output_text.delta", {"item_id": "b", "delta": "second"}),
        e!("output_item.done", {"item": {"type": "message", "id": "a", "content": [{"type": "output_text", "text": "first"}]}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: message \"\"",
        "i2 opened: message \"\"",
        "i1 + \"first\"",
        "i2 + \"second\"",
        "i1 completed at 0, replayed: message \"first\"",
        "i2 completed at 1, replayed: message \"second\"",
        "completed",
    ];

    without_index_and_id_the_item_opened_last_is_meant: [
        e!("output_item.added", {"item": {"type": "message"}}),
        e!("output_item.added", {"item": {"type": "message"}}),
        e!("output_text.delta", {"delta": "last"}),
        e!("output_item.added", {"item": {"type": "function_call", "name": "exec", "call_id": "c"}}),
        e!("function_call_arguments.delta", {"delta": "{\"a\":1}"}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: message \"\"",
        "i2 opened: message \"\"",
        "i2 + \"last\"",
        "i1 completed at 0, not replayed: message \"\"",
        "i2 completed at 1, replayed: message \"last\"",
        "call c at 2: exec({\"a\":1})",
        "completed",
    ];

    an_event_never_writes_into_another_kind_of_item: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "reasoning", "id": "rs"}}),
        e!("output_text.delta", {"output_index": 0, "item_id": "m", "delta": "text"}),
        e!("reasoning_text.delta", {"output_index": 0, "item_id": "rs", "delta": "thought"}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: reasoning [] []",
        "i2 opened: message \"\"",
        "i2 + \"text\"",
        "i1 thought 0 + \"thought\"",
        "i1 completed at 0, not replayed: reasoning [] [\"thought\"]",
        "i2 completed at 0, replayed: message \"text\"",
        "completed",
    ];

    a_delta_before_its_item_opens_it: [
        e!("output_text.delta", {"output_index": 0, "item_id": "m", "delta": "a"}),
        e!("output_item.added", {"output_index": 0, "item": {"type": "message", "id": "m"}}),
        e!("output_text.delta", {"output_index": 0, "item_id": "m", "delta": "b"}),
        e!("function_call_arguments.delta", {"output_index": 1, "item_id": "f", "delta": "{\"x\":"}),
        e!("output_item.added", {"output_index": 1, "item": {"type": "function_call", "id": "f", "name": "exec", "call_id": "c"}}),
        e!("function_call_arguments.delta", {"output_index": 1, "item_id": "f", "delta": "1}"}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"a\"",
        "i1 + \"b\"",
        "i1 completed at 0, replayed: message \"ab\"",
        "call c at 1: exec({\"x\":1})",
        "completed",
    ];

    a_done_item_that_was_not_added_is_opened_with_all_its_text: [
        e!("output_item.done", {"output_index": 0, "item": {"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}]}}),
        e!("output_item.done", {"output_index": 1, "item": {"type": "message", "content": [{"type": "output_text", "text": "all"}]}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: reasoning [\"why\"] []",
        "i1 completed at 0, not replayed: reasoning [\"why\"] []",
        "i2 opened: message \"all\"",
        "i2 completed at 1, replayed: message \"all\"",
        "completed",
    ];

    an_item_that_was_not_done_is_taken_from_the_output_at_its_index: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "message", "id": "m"}}),
        e!("output_text.delta", {"output_index": 0, "delta": "par"}),
        e!("output_item.added", {"output_index": 1, "item": {"type": "function_call", "id": "f", "call_id": "c", "name": "exec"}}),
        e!("function_call_arguments.delta", {"output_index": 1, "delta": "{\"cmd\":"}),
        e!("completed", {"response": {"output": [
            {"type": "message", "id": "another", "content": [{"type": "output_text", "text": "partly"}]},
            {"type": "function_call", "id": "new", "call_id": "c", "name": "exec", "arguments": "{\"cmd\":\"ls\"}"}]}}),
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"par\"",
        "i1 completed at 0, replayed: message \"partly\"",
        "call c at 1: exec({\"cmd\":\"ls\"})",
        "completed",
    ];

    an_item_that_was_not_done_and_is_not_in_the_output_ends_with_what_arrived: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "message", "id": "m"}}),
        e!("output_text.delta", {"output_index": 0, "delta": "par"}),
        e!("output_item.added", {"output_index": 1, "item": {"type": "function_call", "id": "f", "call_id": "c", "name": "exec"}}),
        e!("function_call_arguments.delta", {"output_index": 1, "delta": "{\"cmd\":\"ls\"}"}),
        e!("completed", {"response": {"output": []}}),
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"par\"",
        "i1 completed at 0, replayed: message \"par\"",
        "call c at 1: exec({\"cmd\":\"ls\"})",
        "completed",
    ];

    items_only_in_the_output_are_handled_at_the_end_in_order: [
        e!("output_item.done", {"output_index": 1, "item": {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "b"}]}}),
        e!("completed", {"response": {"output": [
            {"type": "message", "id": "l", "content": [{"type": "output_text", "text": "a"}]},
            {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "b"}]},
            {"type": "function_call", "id": "f", "call_id": "c1", "name": "exec", "arguments": "{}"},
            {"type": "message", "id": "n", "content": [{"type": "output_text", "text": "c"}]},
            {"type": "function_call", "id": "g", "call_id": "c2", "name": "exec", "arguments": "{}"}]}}),
    ] => [
        "i1 opened: message \"b\"",
        "i1 completed at 1, replayed: message \"b\"",
        "i2 opened: message \"a\"",
        "i2 completed at 0, replayed: message \"a\"",
        "i3 opened: message \"c\"",
        "i3 completed at 3, replayed: message \"c\"",
        "call c1 at 2: exec({})",
        "call c2 at 4: exec({})",
        "completed",
    ];

    an_output_that_leaves_items_out_and_names_them_anew_repeats_nothing: [
        e!("output_item.done", {"output_index": 0, "item": {"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": "hm"}]}}),
        e!("output_item.done", {"output_index": 1, "item": {"type": "function_call", "id": "f", "call_id": "c1", "name": "a", "arguments": "{}"}}),
        e!("output_item.done", {"output_index": 2, "item": {"type": "function_call", "id": "g", "call_id": "c2", "name": "b", "arguments": "{}"}}),
        e!("completed", {"response": {"output": [
            {"type": "function_call", "id": "x", "call_id": "c1", "name": "a", "arguments": "{}"},
            {"type": "function_call", "id": "y", "call_id": "c2", "name": "b", "arguments": "{}"}]}}),
    ] => [
        "i1 opened: reasoning [] [\"hm\"]",
        "i1 completed at 0, not replayed: reasoning [] [\"hm\"]",
        "call c1 at 1: a({})",
        "call c2 at 2: b({})",
        "completed",
    ];

    an_item_done_twice_is_done_once: [
        e!("output_item.done", {"output_index": 0, "item": {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "a"}]}}),
        e!("output_item.done", {"output_index": 0, "item": {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "a"}]}}),
        e!("output_text.delta", {"output_index": 0, "delta": "late"}),
        e!("output_item.done", {"item": {"type": "function_call", "call_id": "c", "name": "exec", "arguments": "{}"}}),
        e!("output_item.done", {"item": {"type": "function_call", "call_id": "c", "name": "exec", "arguments": "{}"}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: message \"a\"",
        "i1 completed at 0, replayed: message \"a\"",
        "call c at 1: exec({})",
        "completed",
    ];

    events_after_the_terminal_one_are_ignored: [
        e!("completed", {"response": {}}),
        e!("output_text.delta", {"output_index": 0, "delta": "late"}),
        e!("failed", {"response": {"error": {"code": "late"}}}),
        e!("completed", {"response": {"usage": {"input_tokens": 1}}}),
    ] => ["completed"];

    several_open_items_end_each_on_its_own: [
        e!("output_item.added", {"output_index": 0, "item": {"type": "reasoning", "id": "r"}}),
        e!("output_item.added", {"output_index": 1, "item": {"type": "message", "id": "m"}}),
        e!("reasoning_summary_text.delta", {"output_index": 0, "summary_index": 0, "delta": "x"}),
        e!("output_text.delta", {"output_index": 1, "delta": "y"}),
        e!("output_item.done", {"output_index": 1, "item": {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "y"}]}}),
        e!("output_item.done", {"output_index": 0, "item": {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "x"}]}}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: reasoning [] []",
        "i2 opened: message \"\"",
        "i1 summary 0 + \"x\"",
        "i2 + \"y\"",
        "i2 completed at 1, replayed: message \"y\"",
        "i1 completed at 0, not replayed: reasoning [\"x\"] []",
        "completed",
    ];

    sequence_numbers_are_not_looked_at: [
        e!("output_text.delta", {"sequence_number": 9, "output_index": 0, "delta": "a"}),
        e!("output_text.delta", {"sequence_number": 2, "output_index": 0, "delta": "b"}),
        e!("completed", {"sequence_number": "?", "response": {}}),
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"a\"",
        "i1 + \"b\"",
        "i1 completed at 0, replayed: message \"ab\"",
        "completed",
    ];

    a_call_without_a_call_id_takes_its_item_id_or_a_new_one: [
        e!("output_item.done", {"output_index": 0, "item": {"type": "function_call", "id": "fc_1", "name": "a", "arguments": "{}"}}),
        e!("output_item.done", {"output_index": 1, "item": {"type": "function_call", "call_id": "", "name": "b", "arguments": "{}"}}),
        e!("completed", {"response": {}}),
    ] => ["call fc_1 at 0: a({})", "call call_i1 at 1: b({})", "completed"];

    arguments_may_be_an_object_or_empty: [
        e!("output_item.done", {"output_index": 0, "item": {"type": "function_call", "call_id": "c1", "name": "a", "arguments": {"cmd": "ls"}}}),
        e!("output_item.done", {"output_index": 1, "item": {"type": "function_call", "call_id": "c2", "name": "a", "arguments": ""}}),
        e!("output_item.done", {"output_index": 2, "item": {"type": "function_call", "call_id": "c3", "name": "a", "arguments": {}}}),
        e!("output_item.done", {"output_index": 3, "item": {"type": "function_call", "call_id": "c4", "name": "a", "arguments": null}}),
        e!("function_call_arguments.done", {"output_index": 4, "name": "a", "arguments": {"x": 1}}),
        e!("output_item.done", {"output_index": 4, "item": {"type": "function_call", "call_id": "c5", "arguments": " "}}),
        e!("completed", {"response": {}}),
    ] => [
        "call c1 at 0: a({\"cmd\":\"ls\"})",
        "call c2 at 1: a({})",
        "call c3 at 2: a({})",
        "call c4 at 3: a({})",
        "call c5 at 4: a({\"x\":1})",
        "completed",
    ];

    data_that_is_not_json_is_skipped: [
        "event: response.output_text.delta\ndata: {\"type\":\n\n",
        "data: nonsense\n\n",
        "data: [1,2]\n\n",
        e!("output_text.delta", {"output_index": 0, "delta": "a"}),
        e!("completed", {"response": {}}),
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"a\"",
        "i1 completed at 0, replayed: message \"a\"",
        "completed",
    ];

    a_terminal_event_without_id_and_usage_is_accepted: [
        e!("output_text.delta", {"output_index": 0, "delta": "a"}),
        "data: {\"type\":\"response.completed\"}\n\n",
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"a\"",
        "i1 completed at 0, replayed: message \"a\"",
        "completed",
    ];

    usage_that_counts_nothing_is_unknown: [
        e!("completed", {"response": {"usage": {"input_tokens": null, "output_tokens": "many"}}}),
    ] => ["completed"];

    a_stream_without_terminal_event_is_an_error_whatever_arrived: [
        e!("output_text.delta", {"output_index": 0, "delta": "a"}),
        e!("output_item.done", {"output_index": 1, "item": {"type": "function_call", "call_id": "c", "name": "exec", "arguments": "{}"}}),
        "data: [DONE]\n\n",
    ] => [
        "i1 opened: message \"\"",
        "i1 + \"a\"",
        "i1 left open: message \"a\"",
        "error: stream closed before response.completed",
    ];

}
