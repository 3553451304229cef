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
        "Doctor Smith met Missus Jones.|They talked a lot.",
    ),
    (
        "J. R. Smith lives here. He is a very nice man.",
        "J R Smith lives here.|He is a very nice man.",
    ),
    (
        "He lives in the U.S. today. He is happy.",
        "He lives in the U S today.|He is happy.",
    ),
    (
        "We open at 9 a.m. every day. Come and see us.",
        "We open at 9 AM every day.|Come and see us.",
    ),
    ("We open at 9 a.m. Come and see us one day.", "We open at 9 AM.|Come and see us one day."),
    (
        "Apples, pears, etc. They are all very fresh.",
        "Apples, pears, et cetera.|They are all very fresh.",
    ),
    (
        "See no. 5 for more. It is on the next page.",
        "See number 5 for more.|It is on the next page.",
    ),
    ("No. That is not what I wanted to tell you.", "No.|That is not what I wanted to tell you."),
    (
        "So do I. We can go there together if you like.",
        "So do I.|We can go there together if you like.",
    ),
    (
        "Use fruit, e.g. apples. They are good for you.",
        "Use fruit, for example apples.|They are good for you.",
    ),
    (
        "Open main.py and run it. Then look at the log.",
        "Open main dot py and run it.|Then look at the log.",
    ),
    ("Wait... what did you say to me? I see.", "Wait…|what did you say to me?|I see."),
    ("Wait...what did you say to me just now?", "Wait…|what did you say to me just now?"),
    (
        "Options: 1. open the box 2. close the box again.",
        "Options: 1. open the box|2. close the box again.",
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
    # a first clause without a mark ends at about 12 Hanzi or 8 words, where a speaker would pause
    ("今天是星期三", "今天是星期三"),
    ("我建议您先检查一下路由器。", "我建议您先检查一下路由器。"),
    (
        "根据您提供的信息我建议您先检查一下路由器的电源是否正常",
        "根据您提供的信息|我建议您先检查一下路由器的电源是否正常",
    ),
    (
        "北京今天白天晴到多云最高气温二十五摄氏度最低气温十三摄氏度",
        "北京今天白天晴到多云|最高气温二十五摄氏度最低气温十三摄氏度",
    ),
    (
        "光合作用是绿色植物利用光能把二氧化碳和水转化成有机物的过程",
        "光合作用是绿色植物利用光能|把二氧化碳和水转化成有机物的过程",
    ),
    (
        "我们公司成立于1998年总部位于北京目前有员工三千多人",
        "我们公司成立于1998年|总部位于北京目前有员工三千多人",
    ),
    (
        "您可以先把手机关机再长按电源键十秒钟然后重新开机",
        "您可以先把手机关机再长按电源键十秒钟|然后重新开机",
    ),
    (
        "Python是一种解释型高级编程语言它的语法简洁易学",
        "Python是一种解释型高级编程语言|它的语法简洁易学",
    ),
    (
        "《关于进一步加强网络安全管理工作的若干意见》已经发布",
        "《关于进一步加强网络安全管理工作的若干意见》|已经发布",
    ),
    (
        "他说：“今天的天气真是太好了我们一起去公园吧。”",
        "他说：“今天的天气真是太好了|我们一起去公园吧。”",
    ),
    ("啊" * 30, "啊" * 24 + "|" + "啊" * 6),
    ("你好，" + "啊" * 30, "你好，|" + "啊" * 30),
    (
        "The quick brown fox jumps over the lazy dog.",
        "The quick brown fox jumps|over the lazy dog.",
    ),
    (
        "The capital of France is the beautiful city of Paris which lies on the Seine",
        "The capital of France|is the beautiful city of Paris which lies on the Seine",
    ),
    (
        "I'd be happy to help you find a good restaurant near your hotel tonight.",
        "I'd be happy|to help you find a good restaurant near your hotel tonight.",
    ),
    (
        "Machine learning models usually require large amounts of training data",
        "Machine learning models usually require large amounts|of training data",
    ),
    (
        "You can cook the rice in about 20 minutes if you like",
        "You can cook the rice|in about 20 minutes if you like",
    ),
    (
        "one two three four five six seven eight nine ten eleven",
        "one two three four five six seven eight nine|ten eleven",
    ),
    ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"),
    (
        "The weather in 北京 25℃ is really nice and sunny today",
        "The weather in 北京25摄氏度 is really nice|and sunny today",
    ),
    # answers as they come
    (
        "好的，没问题，我马上帮您查询一下今天的天气情况。",
        "好的，没问题，|我马上帮您查询一下今天的天气情况。",
    ),
    (
        "你好！我是你的AI助手，有什么可以帮你的吗？",
        "你好！|我是你的AI助手，有什么可以帮你的吗？",
    ),
    (
        "当然可以，首先打开设置，然后点击“网络”，最后选择Wi-Fi。",
        "当然可以，|首先打开设置，然后点击“网络”，|最后选择Wi-Fi。",
    ),
    ("他说：“你好！很高兴见到你。”我笑了笑。", "他说：“你好！|很高兴见到你。”|我笑了笑。"),
    ("“真的吗？”她问，“你没骗我？”", "“真的吗？”|她问，“你没骗我？”"),
    ("他笑道：“‘没问题。’他是这么说的。”", "他笑道：“‘没问题。’|他是这么说的。”"),
    (
        "第一，准备材料；第二，开始制作；第三，享受成果。",
        "第一，准备材料；|第二，开始制作；第三，享受成果。",
    ),
    ("《红楼梦》是古典小说，作者是曹雪芹。", "《红楼梦》是古典小说，|作者是曹雪芹。"),
    ("一、概述。二、方法。", "一、概述。|二、方法。"),
    ("步骤：1.打开电源 2.关闭 3.重启", "步骤：1，打开电源，2，关闭，3，重启"),
    ("The price is $5. That's cheap.", "The price is 5 dollars.|That's cheap."),
    (
        "Sure! Here are three tips: 1. Drink water. 2. Sleep well. 3. Exercise daily.",
        "Sure!|Here are three tips: 1. Drink water.|2. Sleep well. 3. Exercise daily.",
    ),
    (
        "Apple Inc. was founded by Steve Jobs. Google LLC came later.",
        "Apple Inc. was founded by Steve Jobs.|Google LLC came later.",
    ),
    ('"Stop!" he cried. "Don\'t move!"', '"Stop!"|he cried. "Don\'t move!"'),
    ("“It’s fine.” He left the room then.", "“It's fine.”|He left the room then."),
    (
        'He said, "I don\'t know." and left. She stayed.',
        'He said, "I don\'t know."|and left. She stayed.',
    ),
    ("It works (see below.) for me. Try it.", "It works (see below.)|for me. Try it."),
    ("Well... maybe... I guess so.", "Well…|maybe…I guess so."),
    (
        'Let\'s say "你好" to everyone, and then 开始上课。',
        'Let\'s say "你好" to everyone,|and then 开始上课。',
    ),
    (
        "中英混排 mixed text 很常见, 比如 machine learning 这个词。",
        "中英混排 mixed text 很常见,|比如 machine learning 这个词。",
    ),
    (
        "请打开Settings，选择Bluetooth & devices，然后点击Add device。",
        "请打开Settings，|选择Bluetooth and devices，然后点击Add device。",
    ),
]
