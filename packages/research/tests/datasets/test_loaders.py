import gzip
import hashlib
import io
import os
import re
import sys
import zipfile
from datetime import date, datetime
from pathlib import Path
from urllib.error import URLError

import polars as pl
import pytest

import dpi
from dpi_research.datasets import DATASETS, cases, load
from dpi_research.datasets._dataset import fetch
from dpi_research.datasets.loaders import TSHARK

COVID = """\
Province/State,Country/Region,Lat,Long,1/22/20,1/23/20,1/24/20
,Italy,41.9,12.6,0,3,5
Hubei,China,31.0,112.3,444,444,440
"""
HONEYPOT = """\
datetime,host,src,proto,type,spt,dpt,srcstr,cc,country,locale,localeabbr,postalcode,latitude,longitude
3/3/13 21:53,groucho-oregon,1032051418,TCP,,6000,1433,61.131.218.218,CN,China,Jiangxi Sheng,36,,28.55,115.9333
2013-03-03 21:57:01,groucho-oregon,1347834426,ICMP,8,,,80.86.82.58,DE,Germany,,,,51,9
"""
PACKETS = """\
"frame.time_epoch","ip.src","ip.len","ip.dst","ip.proto","tcp.srcport","tcp.dstport","udp.srcport","udp.dstport"
"1622865525.551136000","136.0.86.165","44","10.10.10.10","6","80","52085","",""
"1622865526.000000000","136.0.86.166","60","10.10.10.10","17","","","53","4000"
"""
PSD = """\
Commodity_Code,Commodity_Description,Country_Code,Country_Name,Market_Year,Calendar_Year,Month,Attribute_ID,\
Attribute_Description,Unit_ID,Unit_Description,Value
0711100,"Coffee, Green",BR,Brazil,2024,2025,06,028,Production,02,(1000 60 KG BAGS),66400.0000
"""
FLIGHTS = """\
year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,\
air_time,distance,hour,minute,time_hour
2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z
2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,NA,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z
"""
RETAIL_II = """\
Invoice,StockCode,Description,Quantity,InvoiceDate,Price,Customer ID,Country
489434,85048,15CM CHRISTMAS GLASS BALL 20 LIGHTS,12,2009-12-01 07:45:00,6.95,13085.0,United Kingdom
489464,21733,85123a mixed,-96,2009-12-01 10:52:00,0.0,,United Kingdom
"""
RETAIL_I = """\
InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country
536365,85123A,WHITE HANGING HEART T-LIGHT HOLDER,6,12/1/2010 8:26,2.55,17850,United Kingdom
"""
WIKI = (
    '{"time":"2015-09-12T00:46:58.771Z","channel":"#en.wikipedia","cityName":null,"comment":"added project",'
    '"countryIsoCode":null,"countryName":null,"isAnonymous":false,"isMinor":false,"isNew":false,"isRobot":false,'
    '"isUnpatrolled":false,"metroCode":null,"namespace":"Talk","page":"Talk:Oswald Tilghman","regionIsoCode":null,'
    '"regionName":null,"user":"GELongstreet","delta":36,"added":36,"deleted":0}\n'
)

FILES = {
    "covid19": COVID, "honeypot": HONEYPOT, "packets": PACKETS, "psd": PSD, "flights": FLIGHTS, "retail": RETAIL_II,
    "wikiticker": WIKI,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch):
    """Tests do not depend on stored data."""
    monkeypatch.delenv("DPI_DATA", raising=False)


def written(folder: Path, text: str, name: str = "file.csv") -> Path:
    """A small file in the publisher's format."""
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", DATASETS)
def test_a_publishers_file_has_the_stated_columns(tmp_path, name):
    """Every loader gives user, timestamp and value first, then what it states."""
    table = load(name, written(tmp_path, FILES[name]))
    assert table.columns == DATASETS[name].columns
    assert table.columns[:3] == ["user", "timestamp", "value"]
    assert table.height >= 1


def test_covid_counts_are_differences_of_each_region(tmp_path):
    """New cases are daily differences, the first day counts whole, and corrections are below zero."""
    table = load("covid19", written(tmp_path, COVID))
    assert table.filter(user="Italy")["value"].to_list() == [0, 3, 2]
    assert table.filter(user="China/Hubei")["value"].to_list() == [444, 0, -4]
    assert table["timestamp"].min() == date(2020, 1, 22)


def test_a_case_is_a_person_seen_once(tmp_path):
    """Each case has an id of its own, so that a ledger may spend all of ε on the one day it appears."""
    people = cases(load("covid19", written(tmp_path, COVID)), date(2020, 1, 23), date(2020, 1, 25))
    assert people["user"].n_unique() == people.height == 5
    assert people["value"].unique().to_list() == ["Italy"]
    stream = dpi.Stream(
        domain=dpi.Categories(["Italy"]), epsilon=2, slot="1d", budget=dpi.Ledger(per_slot=2), start="2020-01-23"
    )
    releases = list(stream.replay(people, start="2020-01-23", end="2020-01-25", time="timestamp"))
    assert [release.epsilon for release in releases] == [2, 2]


def test_the_user_of_traffic_is_the_source_address(tmp_path):
    """Values are ports or lengths; both ways to write a time are read, and ICMP has no port."""
    attacks = load("honeypot", written(tmp_path, HONEYPOT))
    assert attacks["user"].to_list() == ["61.131.218.218", "80.86.82.58"]
    assert attacks["value"].to_list() == [1433, None]
    assert attacks["timestamp"].to_list() == [datetime(2013, 3, 3, 21, 53), datetime(2013, 3, 3, 21, 57, 1)]
    packets = load("packets", written(tmp_path, PACKETS))
    assert packets["user"].to_list() == ["136.0.86.165", "136.0.86.166"]
    assert packets["value"].to_list() == [44, 60]
    assert packets["dpt"].to_list() == [52085, 4000]
    assert packets["timestamp"][0] == datetime(2021, 6, 5, 3, 58, 45, 551136)


def test_psd_is_read_from_its_zip_file_too(tmp_path):
    """The publisher's ZIP and the CSV in it are one table."""
    archive = tmp_path / "psd_alldata_csv.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("psd_alldata.csv", PSD)
    table = load("psd", archive)
    assert table.equals(load("psd", written(tmp_path, PSD)))
    assert table.row(0)[:3] == ("Brazil|Coffee, Green|Production", 2024, 66400.0)


def test_flights_have_their_scheduled_time_and_may_lack_an_aircraft(tmp_path):
    """A cancelled flight has no tail number: the user is missing, and a stream drops the row."""
    table = load("flights", written(tmp_path, FLIGHTS))
    assert table["timestamp"].to_list() == [datetime(2013, 1, 1, 5, 15), datetime(2013, 1, 1, 16, 30)]
    assert table["user"].to_list() == ["N14228", None]
    assert table["value"].to_list() == ["IAH", "RDU"]


def test_both_editions_of_the_shop_are_one_format(tmp_path):
    """Names and times of both editions are read; a row may lack a customer."""
    second = load("retail", written(tmp_path, RETAIL_II))
    first = load("retail", written(tmp_path, RETAIL_I))
    assert second.schema == first.schema
    assert second["user"].to_list() == [13085, None]
    assert first.row(0)[:3] == (17850, datetime(2010, 12, 1, 8, 26), "WHITE HANGING HEART T-LIGHT HOLDER")


def workbook(path: Path, csv: str) -> Path:
    """The smallest workbook with the cells of a CSV text, all of them texts."""
    rows = [line.split(",") for line in csv.strip().splitlines()]
    cells = "".join(
        "<row>" + "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in row) + "</row>" for row in rows
    )
    main, office = (
        f"http://schemas.openxmlformats.org/{part}"
        for part in ("spreadsheetml/2006/main", "officeDocument/2006/relationships")
    )
    package = "http://schemas.openxmlformats.org/package/2006"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types"/>')
        file.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        file.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="Year 2009-2010" sheetId="1" '
            'r:id="r1"/></sheets></workbook>',
        )
        file.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}/worksheet" '
            'Target="worksheets/sheet1.xml"/></Relationships>',
        )
        file.writestr(
            "xl/worksheets/sheet1.xml", f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>'
        )
    return path


def test_a_workbook_is_the_same_table(tmp_path):
    """The publisher's workbook gives what its sheet saved as CSV gives."""
    pytest.importorskip("fastexcel", reason="workbooks need fastexcel")
    table = load("retail", workbook(tmp_path / "online_retail_II.xlsx", RETAIL_II))
    assert table.equals(load("retail", written(tmp_path, RETAIL_II)))


def test_wikiticker_is_read_packed_and_unpacked(tmp_path):
    """The gzip file and its text are one table."""
    packed = tmp_path / "wikiticker.json.gz"
    packed.write_bytes(gzip.compress(WIKI.encode()))
    table = load("wikiticker", packed)
    assert table.equals(load("wikiticker", written(tmp_path, WIKI)))
    assert table.row(0)[:3] == ("GELongstreet", datetime(2015, 9, 12, 0, 46, 58, 771000), "#en.wikipedia")


def test_offline_a_loader_says_what_it_needs():
    """Without path and folder, the message names the file, its publisher and both ways to give it."""
    with pytest.raises(dpi.OptionError, match=r"psd_alldata\.csv \(USDA.*`path`.*usda_psd\.parquet.*DPI_DATA"):
        load("psd")
    with pytest.raises(dpi.OptionError, match=r"must be a file.*needs flights\.csv"):
        load("flights", "nowhere.csv")


def test_a_file_of_another_format_is_refused_without_its_rows(tmp_path):
    """What stands in a wrong file is not in the message."""
    with pytest.raises(dpi.errors.SchemaError, match=r"file\.csv does not have the columns of flights\.csv") as caught:
        load("flights", written(tmp_path, "name,secret\nsecret-user,1\n"))
    assert "secret" not in str(caught.value)


def test_another_checksum_is_refused(tmp_path, monkeypatch):
    """A stored file must be the known one, and a given file the one whose checksum is stated."""
    path = written(tmp_path, COVID)
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    assert load("covid19", path, sha256=right).height == 6
    with pytest.raises(dpi.OptionError, match="expected was 0000"):
        load("covid19", path, sha256="0" * 64)
    monkeypatch.setenv("DPI_DATA", str(tmp_path))
    pl.DataFrame({"user": [1]}).write_parquet(tmp_path / "usda_psd.parquet")
    with pytest.raises(dpi.OptionError, match="another version, or damaged"):
        load("psd")


def test_nothing_is_downloaded_unless_asked_with_a_checksum(tmp_path, monkeypatch):
    """`download=True` alone is refused, and so is a file without a lasting address."""
    monkeypatch.setattr("dpi_research.datasets._dataset.urlopen", None)
    with pytest.raises(dpi.OptionError, match="needs a folder, named by DPI_DATA, and the `sha256`"):
        load("covid19", download=True)
    with pytest.raises(dpi.OptionError, match="no address that stays"):
        load("honeypot", download=True)


def test_a_download_appears_only_if_it_is_whole(tmp_path):
    """A right file is kept; a wrong one, a broken line and plain http leave nothing behind."""
    right = hashlib.sha256(b"rows").hexdigest()
    target = tmp_path / "file.csv"
    for address, opened, message in (
        ("https://example.org/f", lambda _: io.BytesIO(b"other"), "another version"),
        ("https://example.org/f", lambda _: (_ for _ in ()).throw(URLError("no route")), "cannot be downloaded"),
        ("http://example.org/f", lambda _: io.BytesIO(b"rows"), "must be by https"),
    ):
        with pytest.raises(dpi.OptionError, match=message):
            fetch(address, target, right, opened)
        assert list(tmp_path.iterdir()) == []
    fetch("https://example.org/f", target, right, lambda _: io.BytesIO(b"rows"))
    assert target.read_bytes() == b"rows"


def test_every_data_set_is_documented():
    """docs/published.md has a row for each, with its privacy unit."""
    text = (Path(__file__).parents[4] / "docs" / "published.md").read_text("utf-8")
    for dataset in DATASETS.values():
        assert re.search(rf"\| `{dataset.name}` \|", text), dataset.name


@pytest.mark.skipif(
    "DPI_TEST_DATA" not in os.environ, reason="set DPI_TEST_DATA to a folder with the data sets (docs/published.md)"
)
@pytest.mark.parametrize("name", DATASETS)
def test_a_stored_stream_is_the_known_one(monkeypatch, name):
    """The Parquet files have the stated columns and checksums."""
    monkeypatch.setenv("DPI_DATA", os.environ["DPI_TEST_DATA"])
    assert load(name).columns == DATASETS[name].columns


def test_a_workbook_says_what_to_install(tmp_path, monkeypatch):
    """Without the reader of workbooks the error names its package, and the way without it."""
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(dpi.OptionError, match=r"`pip install fastexcel`; or save its sheets as CSV"):
        load("retail", workbook(tmp_path / "online_retail_II.xlsx", RETAIL_II))


@pytest.mark.parametrize("suffix", ["pcap", "pcapng"])
def test_a_capture_says_how_to_make_its_table(tmp_path, suffix):
    """A capture itself is not read: the error has the command, which is the one of the documentation."""
    path = tmp_path / f"capture.{suffix}"
    path.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    with pytest.raises(dpi.OptionError, match="table that tshark writes: tshark -r"):
        load("packets", path)
    page = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert TSHARK in re.sub(r"\s*\\\n\s*", " ", page)
