"""Where an answer is cut. `|` stands for a cut."""

CASES = [
    # the first clause: a comma after 4 Hanzi, a sentence end always
    ("好的。今天天气晴朗，适合出门。", "好的。|今天天气晴朗，适合出门。"),
    ("嗯，好的，我来看看。", "嗯，好的，我来看看。"),
    ("我来看看，请稍等。", "我来看看，|请稍等。"),
    ("我看看：第一个是苹果。", "我看看：第一个是苹果。"),
    ("首先我们看：第一个是苹果。", "首先我们看：|第一个是苹果。"),
    ("苹果香蕉、梨和桃子都有。", "苹果香蕉、|梨和桃子都有。"),
    ("这个很好；那个也不错。", "这个很好；|那个也不错。"),
    ("你好！很高兴见到你。", "你好！|很高兴见到你。"),
    ("真的吗？我不太相信你说的。", "真的吗？|我不太相信你说的。"),
    ("嗯…让我想一想再说。", "嗯…|让我想一想再说。"),
    ("嗯……让我想一想再说。", "嗯…|让我想一想再说。"),
    ("你好\n世界", "你好|世界"),
    ("我用Python写，不用别的语言。", "我用Python写，|不用别的语言。"),
    ("Sure, I can do that, no problem at all.", "Sure, I can do that,|no problem at all."),
    ("Yes. I will do that for you right now.", "Yes.|I will do that for you right now."),
    ("Well, yes, maybe we should go there now.", "Well, yes, maybe we should go there now."),
    ("Great! Let us start with the first one.", "Great!|Let us start with the first one."),
    ("Really?! I did not expect that from you.", "Really?|I did not expect that from you."),
    ("今日はいい，天気です。", "今日はいい，|天気です。"),
    # later clauses: sentence ends, short sentences joined
    ("好的。好。那我们现在就出发吧。", "好的。|好。那我们现在就出发吧。"),
    ("好的。没问题的啊。我们走。", "好的。|没问题的啊。我们走。"),
    ("OK. Yes. No. We will see what happens next.", "OK.|Yes. No. We will see what happens next."),
    (
        "我来看看，天气很好，风也不大，温度也合适，可以出门。",
        "我来看看，|天气很好，风也不大，温度也合适，|可以出门。",
    ),
    (
        "我来看看，苹果、香蕉、梨、桃子、葡萄、西瓜都有。",
        "我来看看，|苹果、香蕉、梨、桃子、葡萄、西瓜都有。",
    ),
    # newlines
    ("买了：\n苹果\n香蕉\n", "买了：|苹果|香蕉"),
    ("\n\n你好。\n\n\n再见。\n", "你好。|再见。"),
    ("一\r\n二\r\n", "一|二"),
    ("一\u2028二", "一|二"),
    # closing quotes stay with their sentence
    ("他说：“你好。”然后走了。", "他说：“你好。”|然后走了。"),
    ("“你好。我是小明。”他说。", "“你好。|我是小明。”他说。"),
    ("「真的？！」他很惊讶地问道。", "「真的？」|他很惊讶地问道。"),
    ("（这是一个例子。）后面还有内容。", "（这是一个例子。）|后面还有内容。"),
    ('"你好吗？"他这样问我。', '"你好吗？"|他这样问我。'),
    ('He said "Hi there." Then he left the room.', 'He said "Hi there."|Then he left the room.'),
    (
        "He said (that is all.) Then he left the room.",
        "He said (that is all.)|Then he left the room.",
    ),
    ("“你好（朋友。）”他说道。", "“你好（朋友。）”|他说道。"),
    ("你好。”他说道，然后走了。", "你好。|他说道，然后走了。"),
    # ASCII marks inside something
    (
        "Pi is 3.14 and no more. That is all there is.",
        "Pi is 3.14 and no more.|That is all there is.",
    ),
    (
        "Dr. Smith met Mrs. Jones. They talked a lot.",
        "Dr. Smith met Mrs. Jones.|They talked a lot.",
    ),
    (
        "J. R. Smith lives here. He is a very nice man.",
        "J. R. Smith lives here.|He is a very nice man.",
    ),
    (
        "He lives in the U.S. today. He is happy.",
        "He lives in the U.S. today.|He is happy.",
    ),
    (
        "We open at 9 a.m. every day. Come and see us.",
        "We open at 9 a.m. every day.|Come and see us.",
    ),
    ("We open at 9 a.m. Come and see us one day.", "We open at 9 a.m.|Come and see us one day."),
    (
        "Apples, pears, etc. They are all very fresh.",
        "Apples, pears, etc.|They are all very fresh.",
    ),
    ("See no. 5 for more. It is on the next page.", "See no. 5 for more.|It is on the next page."),
    ("No. That is not what I wanted to tell you.", "No.|That is not what I wanted to tell you."),
    (
        "So do I. We can go there together if you like.",
        "So do I.|We can go there together if you like.",
    ),
    (
        "Use fruit, e.g. apples. They are good for you.",
        "Use fruit, e.g. apples.|They are good for you.",
    ),
    (
        "Open main.py and run it. Then look at the log.",
        "Open main dot py and run it.|Then look at the log.",
    ),
    ("Wait... what did you say to me? I see.", "Wait…|what did you say to me?|I see."),
    ("Wait...what did you say to me just now?", "Wait…|what did you say to me just now?"),
    (
        "Options: 1. open the box 2. close the box again.",
        "Options: 1. open the box 2. close the box again.",
    ),
    (
        "It happened in 2024. Then we all went home again.",
        "It happened in 2024.|Then we all went home again.",
    ),
    (
        "I have 1,000 of them, and you have none at all.",
        "I have 1000 of them,|and you have none at all.",
    ),
    ("Let us meet at 10:30 sharp: do not be late.", "Let us meet at 10 30 sharp:|do not be late."),
    ("会议时间是10：30开始。", "会议时间是10点30分开始。"),
    ("我们要说的是3：这个数字。", "我们要说的是3：|这个数字。"),
    ("好的.我们走吧.", "好的.|我们走吧."),
    ("Is a != b here? I think that it is.", "Is a is not equal to b here?|I think that it is."),
    (
        "Go to github.com today. It is a nice place.",
        "Go to github dot com today.|It is a nice place.",
    ),
    ("The end of it.", "The end of it."),
    ("没有标点的一句话", "没有标点的一句话"),
    # nothing to say
    ("", ""),
    ("。。。！？", ""),
    ("😊", ""),
    ("\n \n", ""),
    # what cannot be spoken goes with its neighbour
    ("！！！你好", "你好"),
    ("你好！！！", "你好！"),
    ("……好吧。", "好吧。"),
]
