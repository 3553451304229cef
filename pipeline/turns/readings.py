"""How Chinese characters sound, without a dictionary.

GB 2312 lists its 3755 commonest characters in the order of their readings. The first character of
every syllable is therefore enough to find the syllable of each: a table of 396 entries instead of a
library of 40,000. Tones are unknown, and of several readings one is taken: enough to see that a
recogniser wrote another character for the same sound.
"""
# pyright: strict

from __future__ import annotations

from bisect import bisect_right

#: each syllable with its first character, in the order of GB 2312; ü is v
_TABLE = """
a啊 ai埃 an鞍 ang肮 ao凹 ba芭 bai白 ban斑 bang邦 bao苞 bei杯 ben奔 beng崩 bi逼 bian鞭
biao标 bie鳖 bin彬 bing兵 bo玻 bu捕 ca擦 cai猜 can餐 cang苍 cao操 ce厕 ceng层 cha插
chai拆 chan搀 chang昌 chao超 che车 chen郴 cheng撑 chi吃 chong充 chou抽 chu初 chuai揣
chuan川 chuang疮 chui吹 chun春 chuo戳 ci疵 cong聪 cou凑 cu粗 cuan蹿 cui摧 cun村 cuo磋
da搭 dai大 dan耽 dang当 dao刀 de德 deng蹬 di堤 dian颠 diao碉 die跌 ding丁 diu丢 dong东
dou兜 du都 duan端 dui堆 dun墩 duo掇 e蛾 en恩 er而 fa发 fan藩 fang坊 fei菲 fen芬 feng丰
fo佛 fou否 fu夫 ga噶 gai该 gan干 gang冈 gao篙 ge哥 gei给 gen根 geng耕 gong工 gou钩 gu辜
gua刮 guai乖 guan棺 guang光 gui瑰 gun辊 guo锅 ha哈 hai骸 han酣 hang夯 hao壕 he呵 hei嘿
hen痕 heng哼 hong轰 hou喉 hu呼 hua花 huai槐 huan欢 huang荒 hui灰 hun荤 huo豁 ji击 jia嘉
jian歼 jiang僵 jiao蕉 jie揭 jin巾 jing劲 jiong炯 jiu揪 ju鞠 juan捐 jue撅 jun均 ka喀
kai开 kan刊 kang康 kao考 ke坷 ken肯 keng坑 kong空 kou抠 ku枯 kua夸 kuai块 kuan宽 kuang匡
kui亏 kun坤 kuo括 la垃 lai莱 lan蓝 lang琅 lao捞 le勒 lei雷 leng棱 li厘 lia俩 lian联
liang粮 liao撩 lie列 lin琳 ling拎 liu溜 long龙 lou楼 lu芦 lv驴 luan峦 lve掠 lun抡 luo萝
ma妈 mai埋 man瞒 mang芒 mao猫 me么 mei玫 men门 meng萌 mi眯 mian棉 miao苗 mie蔑 min民
ming明 miu谬 mo摸 mou谋 mu拇 na拿 nai氖 nan南 nang囊 nao挠 ne呢 nei馁 nen嫩 neng能 ni妮
nian蔫 niang娘 niao鸟 nie捏 nin您 ning柠 niu牛 nong脓 nu奴 nv女 nuan暖 nve虐 nuo挪 o哦
ou欧 pa啪 pai拍 pan攀 pang乓 pao抛 pei呸 pen喷 peng砰 pi坯 pian篇 piao飘 pie撇 pin拼
ping聘 po坡 pu扑 qi期 qia掐 qian牵 qiang枪 qiao橇 qie切 qin钦 qing青 qiong琼 qiu秋 qu趋
quan圈 que缺 qun裙 ran然 rang瓤 rao饶 re惹 ren壬 reng扔 ri日 rong戎 rou揉 ru肉 ruan软
rui蕊 run闰 ruo若 sa撒 sai腮 san三 sang桑 sao搔 se瑟 sen森 seng僧 sha莎 shai筛 shan珊
shang墒 shao梢 she奢 shen砷 sheng声 shi师 shou收 shu蔬 shua刷 shuai摔 shuan栓 shuang霜
shui谁 shun吮 shuo说 si斯 song松 sou搜 su苏 suan酸 sui虽 sun孙 suo蓑 ta塌 tai胎 tan坍
tang汤 tao掏 te特 teng藤 ti梯 tian天 tiao挑 tie贴 ting厅 tong通 tou偷 tu凸 tuan湍 tui推
tun吞 tuo拖 wa挖 wai歪 wan豌 wang汪 wei威 wen瘟 weng嗡 wo挝 wu巫 xi昔 xia瞎 xian掀
xiang相 xiao萧 xie楔 xin薪 xing星 xiong兄 xiu休 xu墟 xuan轩 xue靴 xun勋 ya压 yan焉
yang殃 yao邀 ye椰 yi一 yin茵 ying英 yo哟 yong拥 you幽 yu迂 yuan鸳 yue曰 yun耘 za匝 zai栽
zan咱 zang赃 zao遭 ze责 zei贼 zen怎 zeng增 zha扎 zhai摘 zhan瞻 zhang樟 zhao招 zhe遮
zhen珍 zheng蒸 zhi芝 zhong中 zhou舟 zhu珠 zhua抓 zhuai拽 zhuan专 zhuang桩 zhui椎 zhun谆
zhuo捉 zi兹 zong鬃 zou邹 zu租 zuan钻 zui嘴 zun尊 zuo昨
"""
_SYLLABLES = [entry[:-1] for entry in _TABLE.split()]
_FIRST = [entry[-1].encode("gb2312") for entry in _TABLE.split()]
#: what follows the last character that is listed by reading
_END = b"\xd7\xfa"


def reading(character: str) -> str | None:
    """The syllable of one character, as "zhong"; None: not one of the commonest."""
    try:
        code = character.encode("gb2312")
    except UnicodeEncodeError:
        return None
    if len(code) != 2 or not _FIRST[0] <= code < _END:
        return None
    return _SYLLABLES[bisect_right(_FIRST, code) - 1]
