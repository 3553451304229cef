"""How Mandarin utterances end, and how they break off."""
# pyright: strict

from __future__ import annotations

import re

from pipeline.turns.expressions import by_expression, longest_ending
from pipeline.turns.levels import DOUBTFUL, FINISHED, GOING_ON, LIKELY, UNLIKELY

# Endings of a clause. The longest that fits decides, so that 暖和 ends although 和 does not; what
# is not listed ends an utterance. LIKELY holds the exceptions from the shorter endings below it.
_ENDINGS = {
    FINISHED: """
        吗 呢 吧 嘛 啦 呀 喽 咯 好不好 行不行 对不对 怎么样 怎么办 怎么回事 什么意思 多少钱 了没有
        谢谢 再见 拜拜
        """,
    LIKELY: """
        星期几 周几 礼拜几 暖和 柔和 总和 共和 温和 平和 缓和 参与 脚跟 高跟 棉被 服从 听从 自由
        理由 方向 志向 走向 意向 倾向 动向 风向 以往 来往 交往 一把 两把 几把 现在 存在 还在 不在
        都在 内在 外在 自在 所在 对比 性价比 百分比 不给 没给 谦让 转让 不让 不是 也是 真是 成都
        首都 古都 京都 归还 成就 刚才 人才 天才 口才 太太 值得 记得 晓得 舍得 懂得 难得 不得 认得
        心得 是的 好的 真的 行的 对的 会的 可以的 没错的 有的 目的 在这 到这 放这 在那 到那 放那
        什么时候 小时候 到时候 这时候 那时候 有时候 等一下 休息一下 停一下 试一下 没听说 说的话
        你的话 他的话 她的话 我的话 要这个 是这个 用这个 看这个 听这个 选这个 买这个 吃这个 喝这个
        换这个 放这个 拿这个 找这个 做这个 问这个 喜欢这个 打开这个 删除这个 就这个 要那个 是那个
        用那个 看那个 听那个 选那个 买那个 吃那个 喝那个 换那个 放那个 拿那个 找那个 做那个 问那个
        喜欢那个 打开那个 删除那个 就那个 等于几 第几 在哪 去哪 到哪 确实是 当然是
        """,
    DOUBTFUL: """
        的 得 这个 那个 这种 那种 这些 那些 以后 之后 以前 之前 一下 是不是 能不能 会不会 要不要
        可不可以 应该 可能 大概 也许 还是 就是 都是 看到 听到 想到 我在 你在 他在 她在 然后呢
        告诉我 提醒我 通知我 首先 其次 一方面 最近 我有 其实 几 也觉得 好像是 应该是 可能是 还要
        还想
        """,
    UNLIKELY: """
        有没有 时候 想知道 想了解 想问 想听 想看 想吃 想喝 想买 想学 想用 想要 要去 要买 要看 要听
        要吃 要查 要订 要用 需要 希望 打算 准备 比较 给 比 让 有点 有点儿 据说 听说 他说 她说 我说
        他们说 老师说 妈妈说 好像 似乎 也 又 再 才 更 就 还 都 是 一直 经常 已经 正在 刚刚 忽然
        突然 居然 竟然 到底 究竟 几乎 至少 最多 大约 差不多 反正 结果 原来 前往 每 各 哪 那 这 太
        最 很 首先呢 其次呢 另外呢 还有呢 里有 上有 我用 请用 关于这个 个叫 有个 怎么会 你怎么
        你为什么 来说 先 我能不能 我可不可以
        """,
    GOING_ON: """
        然后 因为 但是 可是 不过 如果 假如 要是 而且 并且 还有 或者 或是 或者是 或者说 还是说 比如
        比如说 例如 譬如 以及 所以 因此 因而 于是 另外 此外 虽然 尽管 即使 就算 除了 除非 只要
        只有 无论 不管 不仅 不但 不仅仅 既然 为了 由于 关于 对于 至于 根据 按照 通过 随着 作为
        成为 认为 以为 称为 等于 属于 位于 处于 在于 接着 甚至 否则 要不然 要么 尤其 尤其是 特别是
        就是说 也就是 换句话说 意思是 问题是 重点是 关键是 的是 字是 址是 码是 觉得 我想 我是想
        我是说 我想说 想问一下 请问 请问一下 请教一下 帮我 请你 请您 请 麻烦你 麻烦您 你能 您能
        你能不能 您能不能 你可以 你可不可以 你是不是 你会不会 你要不要 我应该 我可能 我需要 我希望
        我想去 我想吃 让我 叫做 把 被 从 向 往 跟 和 与 由 在 正在去 直到 感到 等到 调到 设到
        导航到 导航去 设置到 推迟到 改到 设置为 设为 改成 换成 变成 翻译成 当成 发给 交给 送给
        打给 转给 借给 寄给 留给 打电话给 发短信给 所有 所有的 某个 某些 每个 百分之 第 两 使得
        显得 变得 非常 十分 相当 稍微 越来越 为什么会 那么 这么 多么 的话 如果说 假设 倘若 万一
        一旦 哪怕 与其 宁可 何况 况且 加上 包括 以便 从而 进而 我对 他对 她对 你对 我叫 他叫 她叫
        名叫 名字叫 嗯 呃 额 唔 那什么 怎么说呢 怎么讲呢 这个嘛 那个嘛 这个这个 那个那个 就是那个
        就是这个 然后那个 然后这个 嗯那个 嗯这个 的那个 的这个 把这个 把那个 我想想 我想一下
        我看看 怎么说来着 什么来着 什么叫 才能 减去 乘以 除以 一共 总共
        """,
}

#: what it means when it is all that was said since the last mark
_ALONE = {
    FINISHED: """
        你好 您好 谢谢 不用了 没有了 是 好 行 对 可以 不 要 停 有 没有 算了 没错 喂 然后呢
        """,
    LIKELY: "就是 告诉我 首先 想 爱 给 也是 都是 我在 会 能 知道 还是算了",
    DOUBTFUL: """
        嗯 一个 打开 关闭 关掉 播放 取消 现在 今天 明天 昨天 后天 晚上 早上 下午 上午 中午 今晚
        明早 明天早上 明天上午 明天下午 明天晚上 今天早上 今天下午 今天晚上 昨天晚上 刚才 周末
        下周 这周 这个 那个 要不要 别 还有一个问题 我有个问题 有一个人
        """,
    UNLIKELY: """
        诶 哎 查 查询 搜 搜索 找 看 听 吃 喝 买 去 设 设置 定 订 导航 翻译 介绍 解释 提醒 提醒我
        叫我 说 讲 计算 查找 放 播 添加 新建 创建 发送 你知道 你喜欢 你说 我喜欢 我爱 我有 我要
        第一 第二 其实 怎么 如何 可不可以 能不能 有没有 是不是 会不会 要不 还是 一方面 最近 怎么说
        有一次 有一天 从前 从前有 说实话 老实说 说真的 怎么讲 你看 我看 你想 你会 请不要 每天
        我在想 我记得 我听说 我看到
        """,
    GOING_ON: """
        你 我 他 她 它 我们 你们 他们 她们 咱们 大家 我就 我也 我都 我还 我很 我会 我能 我可以
        我不 你就 我是 他是 她是 这是 那是 这 那 到 用 叫 对于 首先我 这里 那里
        """,
}

#: what people put before the first word of weight; the pronouns of 那我 and the like stay
_FILLERS = re.compile(
    "(?:嗯|呃|额|啊|哦|唔|诶|欸|哎|那个|这个|那|就是说|就是|然后|所以|但是|不过|而且|好的|好|你好|您好"
    "|喂)+(?=.)"
)

_MEASURES = "个首篇份张本条杯部家种位件台间碗瓶些"
#: a verb whose object is still to come, behind an opening that asks for something
_OBJECT_AWAITED = re.compile(
    r"(?:请|麻烦)?[你您]?(?:能不能|可不可以|可以|能)?(?:帮我|给我|我想|我要|我想要|请你?)"
    r"(?:查|查询|查找|找|搜|搜索|看|听|问|说|讲|放|播放|播|定|订|设|设置|设定|介绍|解释|翻译|计算|算"
    rf"|买|打开|关掉|写|画|发|打|添加|创建|推荐)(?:一下)?(?:[一几]?[{_MEASURES}])?"
)
#: a number of things, and not yet what things; 来一个 and the like order what is known
_THING_AWAITED = re.compile(rf"(?<![来换下上再哪这那每另同第了])一[{_MEASURES}]$")
#: 是红色的, 挺好的: ends; a bare 的 waits for its noun
_SETTLED_DE = re.compile(r"(?:是|挺|蛮|不|没|都|要|好|什么|喜欢)[^的]{0,5}的$")
_ADVERB = re.compile(r"(.)\1地$")

_TIME = "早上|上午|中午|下午|晚上|今天|明天|后天|昨天"
#: how sentences break off that no list of endings holds
_BREAKS = (
    # 把声音: what is to be done with it?
    (re.compile("(?:^|[请我你您])把[^关开发打拿放换调删停收掉了给到]{1,4}$"), UNLIKELY),
    # 因为我, 跟他: a subject without a verb.
    (
        re.compile(
            "(?:因为|结果|每次|比如说?|其实|为什么|如果|有时候|现在|后来|东西)[我你他她它]们?$"
        ),
        GOING_ON,
    ),
    (re.compile("跟[我你他她]们?$|为什么[我你他她]们?会$"), UNLIKELY),
    # 我每天, 我最近: when, and not yet what.
    (
        re.compile(rf"[我你他她]们?(?:每天|平时|通常|一般|今年|最近|以前|现在|刚才|本来|{_TIME})$"),
        UNLIKELY,
    ),
    (re.compile(rf"(?:提醒|叫我|定一?个|设一?个).*(?:{_TIME})$"), UNLIKELY),
    (re.compile("^(?:对于|关于|作为|根据|随着|从)[^走来去出]{1,6}$"), UNLIKELY),
    # 查一下从公司到: where to? Of 从这里看到 the last word is a verb.
    (
        re.compile("从[^没不能可到]{0,7}[^没不能可看听找查见遇收买拿学得做想感迟到]到$"),
        UNLIKELY,
    ),
    (re.compile("[一二三四五六七八九十百零0-9][加减乘]$"), GOING_ON),
    (re.compile("^[一二三四五六七八九十零0-9]+[年月]$"), DOUBTFUL),
)

_RESULT = "就|那|怎|什么|吗|呢|吧|请|帮我|提醒|通知|告诉|叫我|打开|关掉|关闭|否则|几点|多少|能不能"
#: an opening, what has to come after it in the same clause, and the level while it has not
_PAIRS = (
    (
        re.compile(
            rf"(?:如果|要是|假如|假设|万一|一旦|只要|除非)(?!.*(?:{_RESULT}|会|能|可以|该))"
        ),
        UNLIKELY,
    ),
    (re.compile(rf"(?:如果|要是|假如|假设|万一|一旦|只要|除非)(?!.*(?:{_RESULT}))"), DOUBTFUL),
    (re.compile("(?:虽然|尽管)(?!.*(?:但|可是|不过|还是|却|仍|也))"), UNLIKELY),
    (re.compile("(?:不但|不仅)(?!.*(?:而且|还|也|更|甚至))"), UNLIKELY),
    (re.compile("(?:无论|不管|不论)(?!.*(?:都|也|总|还))"), UNLIKELY),
    (re.compile("除了(?!.*(?:还|也|都|其他|没|就|别))"), UNLIKELY),
    (re.compile("既然(?!.*(?:就|那|为什么|何|怎))"), UNLIKELY),
    (re.compile("由于(?!.*(?:所以|因此|就|要|需))"), UNLIKELY),
    (re.compile("一方面(?!.*另一方面)"), UNLIKELY),
)


BY_ENDING = by_expression(_ENDINGS)
BY_CLAUSE = by_expression(_ALONE)
_LONGEST = max(map(len, BY_ENDING))


def mandarin(clause: str) -> float:
    """How finished a clause is that ends in Chinese.

    Args:
        clause: what was said since the last mark, in NFKC, without spaces and marks; not empty.
    """
    if clause in BY_CLAUSE:
        return BY_CLAUSE[clause]
    fillers = _FILLERS.match(clause)
    core = clause[fillers.end() :] if fillers else clause
    ending = _ending(clause)
    if core in BY_CLAUSE:
        # What is an answer alone may be one filler more behind others: 嗯那个.
        return min(ending, BY_CLAUSE[core])
    if ending == FINISHED:
        return ending
    return min(ending, _object(core), _pairs(core), _breaks(clause))


def _ending(clause: str) -> float:
    if _SETTLED_DE.search(clause):
        return LIKELY
    if _ADVERB.search(clause):
        return GOING_ON
    return longest_ending(clause, BY_ENDING, joint="", longest=_LONGEST)


def _object(core: str) -> float:
    if _OBJECT_AWAITED.fullmatch(core):
        return UNLIKELY
    return DOUBTFUL if _THING_AWAITED.search(core) else LIKELY


def _pairs(core: str) -> float:
    return min((level for opening, level in _PAIRS if opening.match(core)), default=LIKELY)


def _breaks(clause: str) -> float:
    return min((level for broken, level in _BREAKS if broken.search(clause)), default=LIKELY)
