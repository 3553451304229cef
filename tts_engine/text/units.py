"""Units and money in words."""

from __future__ import annotations

import re

from tts_engine.text.rule import NUM, START, Rule, rule, words

#: symbol, Chinese, English singular, English plural
_UNITS = """
km/h|公里每小时|kilometer per hour|kilometers per hour
m/s|米每秒|meter per second|meters per second
MB/s|兆字节每秒|megabyte per second|megabytes per second
GB/s|吉字节每秒|gigabyte per second|gigabytes per second
μg/m³|微克每立方米|microgram per cubic meter|micrograms per cubic meter
mmol/L|毫摩尔每升|millimole per liter|millimoles per liter
mg/dL|毫克每分升|milligram per deciliter|milligrams per deciliter
mmHg|毫米汞柱|millimeter of mercury|millimeters of mercury
mg/L|毫克每升|milligram per liter|milligrams per liter
°C|摄氏度|degree Celsius|degrees Celsius
℃|摄氏度|degree Celsius|degrees Celsius
°F|华氏度|degree Fahrenheit|degrees Fahrenheit
℉|华氏度|degree Fahrenheit|degrees Fahrenheit
°|度|degree|degrees
km2|平方公里|square kilometer|square kilometers
m2|平方米|square meter|square meters
cm2|平方厘米|square centimeter|square centimeters
m3|立方米|cubic meter|cubic meters
km²|平方公里|square kilometer|square kilometers
m²|平方米|square meter|square meters
㎡|平方米|square meter|square meters
cm²|平方厘米|square centimeter|square centimeters
m³|立方米|cubic meter|cubic meters
cm³|立方厘米|cubic centimeter|cubic centimeters
km|公里|kilometer|kilometers
㎞|公里|kilometer|kilometers
m|米|meter|meters
dm|分米|decimeter|decimeters
cm|厘米|centimeter|centimeters
㎝|厘米|centimeter|centimeters
mm|毫米|millimeter|millimeters
㎜|毫米|millimeter|millimeters
μm|微米|micrometer|micrometers
nm|纳米|nanometer|nanometers
kg|公斤|kilogram|kilograms
㎏|公斤|kilogram|kilograms
g|克|gram|grams
mg|毫克|milligram|milligrams
μg|微克|microgram|micrograms
L|升|liter|liters
mL|毫升|milliliter|milliliters
ml|毫升|milliliter|milliliters
lb|磅|pound|pounds
lbs|磅|pound|pounds
oz|盎司|ounce|ounces
ft|英尺|foot|feet
h|小时|hour|hours
hr|小时|hour|hours
hrs|小时|hour|hours
min|分钟|minute|minutes
mins|分钟|minute|minutes
sec|秒|second|seconds
secs|秒|second|seconds
ms|毫秒|millisecond|milliseconds
Hz|赫兹|hertz|hertz
kHz|千赫兹|kilohertz|kilohertz
MHz|兆赫兹|megahertz|megahertz
GHz|吉赫兹|gigahertz|gigahertz
KB|千字节|kilobyte|kilobytes
kB|千字节|kilobyte|kilobytes
MB|兆|megabyte|megabytes
GB|G|gigabyte|gigabytes
TB|T|terabyte|terabytes
bps|比特每秒|bit per second|bits per second
kbps|千比特每秒|kilobit per second|kilobits per second
Mbps|兆比特每秒|megabit per second|megabits per second
Gbps|吉比特每秒|gigabit per second|gigabits per second
W|瓦|watt|watts
kW|千瓦|kilowatt|kilowatts
MW|兆瓦|megawatt|megawatts
kWh|千瓦时|kilowatt hour|kilowatt hours
V|伏|volt|volts
mAh|毫安时|milliamp hour|milliamp hours
kPa|千帕|kilopascal|kilopascals
hPa|百帕|hectopascal|hectopascals
MPa|兆帕|megapascal|megapascals
kcal|千卡|kilocalorie|kilocalories
kJ|千焦|kilojoule|kilojoules
dB|分贝|decibel|decibels
mph|英里每小时|mile per hour|miles per hour
rpm|转每分钟|revolution per minute|revolutions per minute
fps|帧每秒|frame per second|frames per second
px|像素|pixel|pixels
"""
_TABLE = {row[0]: row[1:] for row in (line.split("|") for line in _UNITS.split("\n") if line)}
_ALTERNATIVES = "|".join(re.escape(unit) for unit in sorted(_TABLE, key=len, reverse=True))

#: sign or code, Chinese, English singular, English plural, English hundredth
_MONEY = """
$|美元|dollar|dollars|cent
US$|美元|dollar|dollars|cent
USD|美元|dollar|dollars|cent
HK$|港元|Hong Kong dollar|Hong Kong dollars|cent
HKD|港元|Hong Kong dollar|Hong Kong dollars|cent
NT$|新台币|Taiwan dollar|Taiwan dollars|cent
¥|元|yuan|yuan|
RMB|元|yuan|yuan|
CNY|元|yuan|yuan|
€|欧元|euro|euros|cent
EUR|欧元|euro|euros|cent
£|英镑|pound|pounds|penny
GBP|英镑|pound|pounds|penny
JPY|日元|yen|yen|
A$|澳元|Australian dollar|Australian dollars|cent
AUD|澳元|Australian dollar|Australian dollars|cent
C$|加元|Canadian dollar|Canadian dollars|cent
CAD|加元|Canadian dollar|Canadian dollars|cent
₩|韩元|won|won|
₹|卢比|rupee|rupees|
"""
_MONIES = {row[0]: row[1:] for row in (line.split("|") for line in _MONEY.split("\n") if line)}
_MONEY_ALTERNATIVES = "|".join(re.escape(m) for m in sorted(_MONIES, key=len, reverse=True))
_CODES = "|".join(m for m in _MONIES if m.isalpha())
_SCALES = {
    "k": ("千", "thousand"),
    "K": ("千", "thousand"),
    "m": ("百万", "million"),
    "M": ("百万", "million"),
    "b": ("十亿", "billion"),
    "B": ("十亿", "billion"),
    "thousand": ("千", "thousand"),
    "million": ("百万", "million"),
    "billion": ("十亿", "billion"),
    "trillion": ("万亿", "trillion"),
}
_SCALE = r"万亿|百万|千万|万|亿|thousand|million|billion|trillion|[kKmMbB]"


def _unit(match: re.Match[str], chinese: bool) -> str:
    zh, singular, plural = _TABLE[match["unit"]]
    if chinese:
        return zh
    return f" {singular if match['n'] == '1' else plural}"


def _money(match: re.Match[str], chinese: bool) -> str:
    zh, singular, plural, hundredth = _MONIES[match["money"]]
    number, scale = match["n"], match["scale"] or ""
    whole, _, part = number.partition(".")
    if chinese:
        number = number.rstrip("0").rstrip(".") if part else number
        return f"{number}{_SCALES.get(scale, (scale,))[0]}{zh}"
    if scale:
        return f"{number} {_SCALES.get(scale, ('', scale))[1]} {plural}"
    if not hundredth or len(part) != 2:
        return f"{number} {singular if number == '1' else plural}"
    said = f"{int(whole)} {singular if int(whole) == 1 else plural}"
    if not int(part):
        return said
    many = "pence" if hundredth == "penny" else f"{hundredth}s"
    return f"{said} and {int(part)} {hundredth if int(part) == 1 else many}"


UNIT_RULES: tuple[Rule, ...] = (
    rule(
        "money",
        rf"(?<![A-Za-z])(?P<money>{_MONEY_ALTERNATIVES})\s?(?P<n>{NUM})"
        rf"(?:\s?(?P<scale>{_SCALE})(?![A-Za-z]))?",
        _money,
    ),
    rule(
        "money",
        rf"{START}(?P<n>{NUM})\s?(?P<scale>{_SCALE})?\s?(?P<money>{_CODES}|[¥€£])(?![A-Za-z0-9])",
        _money,
    ),
    words("hours", r"(?<=[0-9])h(?=[0-9]{1,2}\s?min)", "小时", " hours "),
    rule(
        "unit",
        rf"{START}(?P<n>{NUM}[百千万亿]*)\s?(?P<unit>{_ALTERNATIVES})(?![A-Za-z0-9²³])",
        _unit,
        "unit",
    ),
    # 5元/kg
    rule(
        "per unit",
        rf"(?<=[\u4e00-\u9fff])/(?P<unit>{_ALTERNATIVES})(?![A-Za-z0-9])",
        lambda m, _: f"每{_TABLE[m['unit']][0]}",
    ),
    words("per", r"(?<=[元次人个米里斤克字万块亿吨天时分])/(?=[\u4e00-\u9fff])", "每", "每"),
    words("seconds", r"(?<=[0-9])\s?s(?![A-Za-z0-9])", "秒", "s"),
    words("degrees", r"℃|°C", "摄氏度", "degrees Celsius"),
    words("degrees", r"℉|°F", "华氏度", "degrees Fahrenheit"),
    words("degrees", r"°", "度", " degrees "),
)
