#include "data/prose/html.h"

#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(Html, BecomesParagraphs) {
  EXPECT_EQ(
      text_of_html("<html><head><title>x</title></head><body><h1>A  title</h1>\n<p>One\ntwo <b>three</b>.</p>"
                   "<ul><li>four<li>five</ul></body></html>"),
      "A title\n\nOne two three.\n\nfour\n\nfive");
  EXPECT_EQ(text_of_html("good.<br /><br />Bad."), "good.\n\nBad.");
  EXPECT_EQ(text_of_html("no markup"), "no markup");
  EXPECT_EQ(text_of_html(""), "");
}

TEST(Html, LeavesOutWhatIsNotProse) {
  EXPECT_EQ(text_of_html("a<script>if (a<b) x();</script>b<!-- c <p> -->c<pre>code\n  code</pre>d"),
            "abc\n\nd");
  EXPECT_EQ(text_of_html("<div class=\"x sphinxsidebar\"><div>menu</div> more</div>text"), "text");
  EXPECT_EQ(text_of_html("<div class=nosearch>menu</div>text<div id='quickview'>list</div>"), "text");
  EXPECT_EQ(text_of_html("a<STYLE>b</i> <p</Style>c<script>never closed"), "ac");
  EXPECT_EQ(text_of_html("<NAV>menu</NAV>text<nav>never closed"), "text");
}

TEST(Html, KnowsCharacterReferences) {
  EXPECT_EQ(text_of_html("&lt;a&gt; &amp; caf&eacute; &#8212; &#x41; AT&T &unknown; &#xD800; &"),
            "<a> & café — A AT&T &unknown; &#xD800; &");
}

TEST(Html, KeepsSignsThatBeginNoTag) {
  EXPECT_EQ(text_of_html("1 < 2, 3 > 2, <3 and a <b"), "1 < 2, 3 > 2, <3 and a <b");
}

}  // namespace
}  // namespace bridle
