"""What never belongs in the context: input, raw, spoken."""

CALL = '{"name": "get_weather", "arguments": {"city": "北京}\\"", "days": [1]}}'

CASES = [
    ("<think>想一想，嗯。</think>你好。", "你好。", "你好。"),
    ("<THINK>想</Think>你好。", "你好。", "你好。"),
    ("<thinking>a < b</thinking>\n\n你好。", "\n\n你好。", "你好。"),
    ("你<think>想</think>好。", "你好。", "你好。"),
    ("想完了</think>你好。", "想完了你好。", "想完了你好。"),
    ("你好。<think>没有完", "你好。", "你好。"),
    ("你好<thi", "你好<thi", "你好小于thi"),
    ("<<think>x</think>你好。", "<你好。", "你好。"),
    ("<tool_call>\n" + CALL + "\n</tool_call>你好。", "你好。", "你好。"),
    ("好，我查。" + CALL + "查到了。", "好，我查。查到了。", "好，我查。|查到了。"),
    ("[" + CALL + "]你好。", "你好。", "你好。"),
    ('{ "name" : "x", "parameters": {} }你好。', "你好。", "你好。"),
    ('{"function": {"name": "x"}}你好。', "你好。", "你好。"),
    ('{"name": "张三", "age": 3}你好。', '{"name": "张三", "age": 3}你好。', None),
    ('你好。{"name": "get_w', "你好。", "你好。"),
    ('{"city": 1}好', '{"city": 1}好', None),
    ("[好]{吧}", "[好]{吧}", "好吧"),
    ("[" + " " * 70 + "{好", "[" + " " * 70 + "{好", "好"),
    # fenced calls go with their fence
    ("```json\n" + CALL + "\n```\n查到了。", "\n查到了。", "查到了。"),
    ("```\n" + CALL + "\n" + CALL + "\n```好。", "好。", "好。"),
    ("```json\n[" + CALL + "]\n```好。", "好。", "好。"),
    ("```json" + CALL + "好。", "好。", "好。"),
    ("```json" + CALL + "\n", "", ""),
    ("```json" + CALL + "``", "", ""),
    ("```json" + CALL + " " * 70 + "好。", " " * 70 + "好。", "好。"),
    ('```json\n{"city": 1}\n```好。', '```json\n{"city": 1}\n```好。', "好。"),
    ('```json\n{"name": 1}\n```好。', '```json\n{"name": 1}\n```好。', "好。"),
    ("```python\nx\n```好。", "```python\nx\n```好。", "好。"),
    ("用`ls`看。", "用`ls`看。", "用ls看。"),
    # other ways to write a call
    ("<function=f>{}</function>好。", "好。", "好。"),
    ("[TOOL_CALLS][" + CALL + "]好。", "好。", "好。"),
    # what is no JSON any more ends a call
    ('{"name": "x", "arguments": {"a": 1}\n好，查到了。', "好，查到了。", "好，查到了。"),
    ('```json\n{"name": "x", "arguments": {"a": 1}\n好。', "好。", "好。"),
    ('{"name": x}好。', '{"name": x}好。', None),
    ('{"name": "' + "x" * 9000, '{"name": "' + "x" * 9000, None),
    # unclosed, and closed once more
    ("好。<tool_call>" + CALL, "好。", "好。"),
    ("好。</tool_call>", "好。", "好。"),
    ("<think><think>a</think>好。</think>", "好。", "好。"),
    ("<reasoning>a</reasoning>\n好。", "\n好。", "好。"),
    ("<thinker>好", "<thinker>好", "好"),
]
