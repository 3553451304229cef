"""Total, within [0, 1], blind to space at the end; a full stop never makes a text less finished."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns import endings_en, endings_zh
from pipeline.turns.completeness import completeness
from pipeline.turns.expressions import by_expression, expressions
from pipeline.turns.levels import LIKELY, UNLIKELY

# What ends at the floor, as a recogniser without punctuation writes it, and one with.
FINISHED = """
打开客厅的灯
播放音乐
停
现在几点
现在几点了
今天天气怎么样
今天天气怎么样?
明天北京会下雨吗
你叫什么名字
你是谁
你在吗
你好
你好。
好的
好
对
不是
不用了
没有
没有了
还没有
你吃了没有
有没有空吗
我也是
是
是的
是的。
把空调关了
把灯打开
帮我把灯打开
帮我查一下明天的天气
帮我定一个明天早上七点的闹钟
我想听周杰伦的歌
我想去北京
给我讲个笑话
给我讲一个笑话。
讲个故事吧
再来一个
换一个
下一首
我要这个
我喜欢那个
就要这个
这是什么
那是谁
为什么天空是蓝色的
为什么
怎么做红烧肉
怎么去火车站
法国的首都是哪里
中国的首都是北京
我在听
这个挺好的
红色的是最好的
我不知道
不知道。
等一下
三加五等于多少
调到二十六
把音量调到50
温度设为26。
我的电话是13812345678
请拨打110
请拨打10086
验证码是482913
今天星期三
今天星期几
我爱你
我住在成都
天气很暖和
这件事你参与了没有
他是我的老师
我有两把钥匙
声音大一点
说慢一点。
什么时候开会
会议是什么时候
你小时候住在哪里
如果明天下雨怎么办
如果明天下雨就提醒我带伞
如果有人来,告诉我
因为我今天没有时间,所以不去了
虽然很贵但是我喜欢
除了苹果我还喜欢香蕉
我喜欢苹果、香蕉和橘子
你喜欢喝茶还是喝咖啡
谢谢
谢谢你
再见
可以
不可以
行不行
这样好不好
你说呢
那苹果呢
用不用带伞
这个没用
图书馆在哪儿
我找到了
我还没收到
他迟到了
他从来没迟到
你听得到吗
这是我的自由
turn on the light
turn the lights on
play some music
stop
wait
what time is it
what time is it?
what is the capital of france
how are you
how are you today
yes
no
yes I do
I think so
who are you
where are you from
what is it like
what's it like?
what is this made of
what are you talking about
what are you looking for
who are you talking to
where to
come in
hold on
what's going on
set the volume to five
set the temperature to 21
set a timer for ten minutes
tell me a joke
tell me a joke.
can you help me
can you recommend a good book?
thank you
thanks
hello
okay
I don't know
I want to go home
I like this one
which one
that's it
I'd like a coffee please
turn it off
call my mother
call her
dial 911
if it rains tomorrow what should I do
if it rains I will stay at home
milk, eggs, and bread
because I like it
yes I can
tell me what it is
I know who she is
here you are
tell me why
why not
I hope not
play that
苹果用英语怎么说
附近有什么好吃的
他在哪
三加五等于几
我要两个
book a table for two
I was born in 1990
I'm 25
number two
lights on
who are they
so am I
yes please
what should I do
what time does it close
第一个
下午三点
什么
等等我
13812345678
一三八一二三四五六七八
what was the movie like
打开 YouTube
我想学 Python
一共是三百二十
我想要红色的
""".strip().splitlines()

# What may be all, and may go on: between the floor and the ceiling.
DOUBTFUL = """
嗯
嗯。
明天
现在
这个
那个
三百二十
my number is 202 555 0143
北京的
吃完饭以后
我要一个
打开
一二三四
苹果、香蕉、橘子
如果你能来
我不太好说应该
然后?
因为?
tomorrow
two hundred
twenty
do you know that
apples, bananas, pears
what is the weather in
播放一首
播放周杰伦的
二零二六年
应该是
I don't
set a timer
last week
and?
""".strip().splitlines()

# What cannot end like this: near the ceiling, or all of it.
UNFINISHED = """
然后
然后。
我想去北京然后
我想去北京,然后。
我不去因为
因为。
但是
我喜欢苹果但是
如果
如果。
还有
而且
我要一杯咖啡还有
苹果或者
比如
比如说
我喜欢水果,比如
就是说
我的意思是
我觉得
我想
我想。
我要去
帮我
帮我把
请你
请
请问
请问一下
你能不能
能不能帮我
把
把灯和
我和
我跟
我从
我住在
我在北京和
请把空调调到
导航到
打电话给
发短信给
帮我查
我想听
我想看
我想知道
有没有
呃
嗯那个
我想去嗯
然后那个
我要那个那个
我
我们
你是不是
他说
如果明天下雨
要是他不来
虽然很贵
不但便宜
除了苹果
既然你来了
如果下雨的话
如果的话
我到家的时候
我叫
我的名字是
我的电话号码是
请拨打三百二十
请拨打1
我的电话是138
我的手机号是一三八零零
一二三
一三八零零
百分之
第
我要两
苹果、
苹果、香蕉、
我喜欢苹果,
明天北京,
嗯,
有三个问题:
他说"你好
(比如
我想要...
我想……
今天天气——
这个问题我非常
他正在
关于
关于这个
为了
除了
怎么说呢
让我想想
慢慢地
我对
以及
所以
不过
and
I went there and
I went there and.
because
I like it because
but
so if
if
I want to
I want to.
I want
I'd like to
can you
could you please
I need to
the
turn on the
turn on
it's a
my
I went to
one of
what is the capital of
tell me about
what about
with
I was waiting for
let me
let's
I mean
um
uh
I think um
well
so um
like
I was like
for example
such as
my name is
what is
what are
where is the
how do I
is
it was the
one two three
my number is five five five
my number is 555-12
call 55
I want five
set a timer for five
if it rains tomorrow
when I was in school
although it was late
milk, eggs,
hello,
I would like to book a
I want to...
I want to-
do you
I
we
and I
a lot of
do you like the
give me a list of the
she told me that he is
我想问一下我最近
因为我
结果他
跟他
把声音
请把闹钟
提醒我明天早上
从北京到
帮我查一下从公司到
你知道从八点到
对于这个问题
三乘以
一个叫
你怎么
有一次
老实说
请不要
how do you
how can I
why did
what does
would you like
I want to know how
do you know where
I usually
he said
it depends on
send it to john at gmail
I saw
帮我查一下
帮我查一下。
帮我写一篇
I want twenty
so
我用 Python 和
我想 buy the
""".strip().splitlines()


@pytest.mark.parametrize("text", FINISHED)
def test_finished(text: str) -> None:
    assert completeness(text) >= LIKELY


@pytest.mark.parametrize("text", DOUBTFUL)
def test_doubtful(text: str) -> None:
    assert UNLIKELY < completeness(text) < LIKELY


@pytest.mark.parametrize("text", UNFINISHED)
def test_unfinished(text: str) -> None:
    assert completeness(text) <= UNLIKELY


@pytest.mark.parametrize("text", ["", "  ", "。", "...", "♪", "?!"])
def test_nothing_said_is_finished(text: str) -> None:
    assert completeness(text) == 1.0


TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from([*FINISHED, *DOUBTFUL, *UNFINISHED, "、", ",", "。", "?", '"', "(", " "]),
        max_size=4,
    ).map("".join),
)


@given(TEXTS)
def test_total_and_bounded(text: str) -> None:
    assert 0.0 <= completeness(text) <= 1.0


@given(TEXTS, st.text(" \t\n\u3000", max_size=5))
def test_space_at_the_end_means_nothing(text: str, space: str) -> None:
    assert completeness(text + space) == completeness(text)


@given(st.sampled_from([*FINISHED, *DOUBTFUL, *UNFINISHED]))
def test_marks_are_ordered(text: str) -> None:
    bare = text.rstrip("。.?,、:…—-!")
    stop, comma, trail = (completeness(bare + mark) for mark in (".", ",", "..."))
    assert trail <= comma <= completeness(bare) <= stop
    assert completeness(bare + "。") == stop
    assert completeness(bare + "，") == comma


@given(st.sampled_from(FINISHED), st.sampled_from(["然后", "因为", "比如说"]))
def test_a_connective_goes_on(text: str, connective: str) -> None:
    said = text.rstrip("。.?") + "，" + connective
    assert completeness(said) == completeness(said + "。") == 0.0


def test_a_long_text_costs_no_more_than_its_end() -> None:
    assert completeness("what is " * 50_000 + "the") == 0.0
    assert completeness("一" * 100_000) < LIKELY


@pytest.mark.parametrize("module", [endings_zh, endings_en], ids=["zh", "en"])
def test_no_rule_is_dead(module: ModuleType) -> None:
    """Each ending has one level, and another than the shorter ending that it holds."""
    for table in (module._ENDINGS, module._ALONE):
        assert sum(len(expressions(row)) for row in table.values()) == len(by_expression(table))
    levels, joint = module.BY_ENDING, "" if module is endings_zh else " "
    for ending, level in levels.items():
        parts = list(ending) if module is endings_zh else ending.split()
        shorter = (levels.get(joint.join(parts[start:])) for start in range(1, len(parts)))
        assert level != next((each for each in shorter if each is not None), LIKELY), ending
