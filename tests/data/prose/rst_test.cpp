#include "data/prose/rst.h"

#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(Rst, KeepsHeadingsParagraphsAndLists) {
  EXPECT_EQ(text_of_rst("=====\nTitle\n=====\n\nOne\ntwo.\n\n- first\n  goes on\n- second\n\n#. third\n"),
            "Title\n\nOne two.\n\nfirst goes on\n\nsecond\n\nthird");
  EXPECT_EQ(text_of_rst(""), "");
}

TEST(Rst, TakesMarkupOffWords) {
  EXPECT_EQ(
      text_of_rst("See :ref:`the page <page>`, :c:func:`!run`, ``a *b*``, `a link <http://x>`_ and `it`__."),
      "See the page, run, a *b*, a link and it.");
  EXPECT_EQ(text_of_rst("*em* and **strong** but 2*3*4 and a * b [1]_ \\*star"),
            "em and strong but 2*3*4 and a * b *star");
  EXPECT_EQ(text_of_rst("an `open quote, and **never closed"), "an `open quote, and **never closed");
}

TEST(Rst, LeavesOutCodeTablesAndComments) {
  EXPECT_EQ(
      text_of_rst(
          ".. SPDX-License-Identifier: GPL-2.0\n\n.. _target:\n\nText::\n\n  code\n\n  code\n\nMore.\n"),
      "Text:\n\nMore.");
  EXPECT_EQ(text_of_rst("Before\n\n.. code-block:: c\n   :linenos:\n\n   int x;\n\n      y\n\nafter.\n"),
            "Before\n\nafter.");
  EXPECT_EQ(text_of_rst("a\n\n==== ====\nhead two\n==== ====\n1    2\n\n3    4\n==== ====\n\nb\n"), "a\n\nb");
  EXPECT_EQ(text_of_rst("a\n\n+---+---+\n| 1 | 2 |\n+---+---+\n\nb\n"), "a\n\nb");
  EXPECT_EQ(text_of_rst(":Author: somebody\n:Date: today\n  and on\n\nText\n"), "Text");
}

TEST(Rst, KeepsNotes) {
  EXPECT_EQ(text_of_rst(".. note:: Take\n   care.\n\n   Really.\n\nEnd."), "Take care.\n\nReally.\n\nEnd.");
  EXPECT_EQ(text_of_rst(".. warning::\n\n   Hot.\n"), "Hot.");
}

}  // namespace
}  // namespace bridle
