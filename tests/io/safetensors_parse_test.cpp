// parse_safetensors_header, of src/io/safetensors_parse.cpp.
#include "bridle/error.h"
#include "file_support.h"
#include "io/safetensors_header.h"

namespace bridle {
namespace {

SafetensorsHeader parse(const std::string& text) { return parse_safetensors_header(text, "a.st"); }

// A header whose one tensor is given by the rest.
std::string of_tensor(const std::string& fields) { return R"({"w":{)" + fields + "}}"; }

TEST(SafetensorsParse, ReadsNamesPlacesAndMetadata) {
  const SafetensorsHeader header = parse(R"({ "w" : {"shape":[2,3],"data_offsets":[8,20],"dtype":"F16"},
    "__metadata__": {"a":"1","b":"\u00e9"}, "":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}   )");
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"a", "1"}, {"b", "é"}}));
  ASSERT_EQ(header.entries.size(), 2);
  const SafetensorsEntry& w = header.entries[0];
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.dtype, at::kHalf);
  EXPECT_EQ(w.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(w.begin, 8);
  EXPECT_EQ(w.end, 20);
  EXPECT_EQ(header.entries[1].name, "");
  EXPECT_TRUE(header.entries[1].shape.empty());
}

TEST(SafetensorsParse, ReadsWhatIsPrinted) {
  const SafetensorsHeader header{.metadata = {{"k\t", "ü\\"}},
                                 .entries = {{.name = "\"", .shape = {0, 7}, .begin = 3, .end = 3}}};
  const SafetensorsHeader again = parse(print_safetensors_header(header));
  EXPECT_EQ(again.metadata, header.metadata);
  ASSERT_EQ(again.entries.size(), 1);
  EXPECT_EQ(again.entries[0].name, "\"");
  EXPECT_EQ(again.entries[0].shape, header.entries[0].shape);
  EXPECT_TRUE(parse(print_safetensors_header({})).entries.empty());
}

TEST(SafetensorsParse, RefusesWhatIsNotJson) {
  EXPECT_ERROR(parse(""), InputError, "[safetensors] a.st: the header does not begin with '{'");
  EXPECT_ERROR(parse(" {}"), InputError, "does not begin with '{'");
  EXPECT_ERROR(parse("\xEF\xBB\xBF{}"), InputError, "does not begin with '{'");
  EXPECT_ERROR(parse("{"), InputError, "byte 2 is not what UTF-8 JSON can have there");
  EXPECT_ERROR(parse("{} {}"), InputError, "byte 4 is not");
  EXPECT_ERROR(parse("{\"a\xff\":"), InputError, "byte 4 is not");
  EXPECT_ERROR(parse("{/**/}"), InputError, "byte 2 is not");
  EXPECT_ERROR(parse(R"({"__metadata__":{"a":"b",}})"), InputError, "byte 26 is not");
}

TEST(SafetensorsParse, DoesNotStopAtAZeroByte) {
  EXPECT_ERROR(parse(std::string("{}\0more", 7)), InputError, "the header's byte 3 is zero");
  EXPECT_EQ(parse(R"({"__metadata__":{"a":"\u0000"}})").metadata.at("a"), std::string(1, '\0'));
}

TEST(SafetensorsParse, RefusesWhatComesTwice) {
  const std::string fields = R"("dtype":"U8","shape":[],"data_offsets":[0,1])";
  EXPECT_ERROR(parse(R"({"w":{)" + fields + R"(},"w":{)" + fields + "}}"), InputError,
               "tensor \"w\": its name comes twice");
  EXPECT_ERROR(parse(of_tensor(fields + R"(,"shape":[])")), InputError,
               "tensor \"w\": key \"shape\" comes twice");
  EXPECT_ERROR(parse(R"({"__metadata__":{},"__metadata__":{}})"), InputError,
               "__metadata__: its name comes twice");
  EXPECT_ERROR(parse(R"({"__metadata__":{"a":"1","\u0061":"2"}})"), InputError, "key \"a\" comes twice");
}

TEST(SafetensorsParse, RefusesKeysAndDtypesThatItDoesNotKnow) {
  EXPECT_ERROR(
      parse(of_tensor(R"("shapes":[])")), InputError,
      "tensor \"w\": unknown key \"shapes\"; did you mean \"shape\"? Known: dtype, shape, data_offsets");
  EXPECT_ERROR(parse(of_tensor(R"("dtype":"F8_E4M3")")), InputError,
               "tensor \"w\": dtype \"F8_E4M3\" is not known; convert the tensor to one of F64 F32");
}

TEST(SafetensorsParse, RefusesAnEntryWithoutAllItsKeys) {
  EXPECT_ERROR(parse(R"({"w":{}})"), InputError, "tensor \"w\": \"dtype\" is missing");
  EXPECT_ERROR(parse(of_tensor(R"("dtype":"U8","shape":[1])")), InputError, "\"data_offsets\" is missing");
  EXPECT_ERROR(parse(of_tensor(R"("dtype":"U8","data_offsets":[0,1])")), InputError, "\"shape\" is missing");
}

TEST(SafetensorsParse, RefusesValuesOfAnotherKind) {
  EXPECT_ERROR(parse(R"({"w":5})"), InputError,
               "tensor \"w\": its value is 5, where an object with dtype, shape");
  EXPECT_ERROR(parse(R"({"w":[]})"), InputError, "tensor \"w\": its value is a list");
  EXPECT_ERROR(parse(R"({"__metadata__":null})"), InputError,
               "is null, where an object with strings belongs");
  EXPECT_ERROR(parse(R"({"__metadata__":{"a":1}})"), InputError,
               "__metadata__: \"a\" holds 1, where a string");
  EXPECT_ERROR(parse(R"({"__metadata__":{"a":{}}})"), InputError, "\"a\" holds an object, where a string");
  EXPECT_ERROR(parse(R"({"__metadata__":{"a":["b"]}})"), InputError, "\"a\" holds a list, where a string");
  EXPECT_ERROR(parse(of_tensor(R"("dtype":true)")), InputError,
               "\"dtype\" holds true, where a string belongs");
  EXPECT_ERROR(parse(of_tensor(R"("dtype":["U8"])")), InputError, "\"dtype\" holds a list, where a string");
  EXPECT_ERROR(parse(of_tensor(R"("shape":"[1]")")), InputError,
               "\"shape\" holds \"[1]\", where a list belongs");
  EXPECT_ERROR(parse(of_tensor(R"("shape":3)")), InputError, "\"shape\" holds 3, where a list belongs");
}

TEST(SafetensorsParse, RefusesNumbersThatAreNoSizes) {
  EXPECT_ERROR(parse(of_tensor(R"("shape":[2,-1])")), InputError,
               "\"shape\" holds -1, where an integer from 0");
  EXPECT_ERROR(parse(of_tensor(R"("shape":[2.0])")), InputError, "\"shape\" holds \"2.0\", where an integer");
  EXPECT_ERROR(parse(of_tensor(R"("shape":[[2]])")), InputError, "\"shape\" holds a list, where an integer");
  EXPECT_ERROR(parse(of_tensor(R"("shape":["2"])")), InputError, "\"shape\" holds \"2\", where an integer");
  EXPECT_ERROR(parse(of_tensor(R"("shape":[9223372036854775808])")), InputError, "more than 2^63 - 1");
  EXPECT_ERROR(parse(of_tensor(R"("data_offsets":[0,18446744073709551616])")), InputError,
               "where an integer");
  EXPECT_ERROR(parse(of_tensor(R"("shape":[1e999])")), InputError, "is not what UTF-8 JSON");
  EXPECT_ERROR(parse(of_tensor(R"("data_offsets":[0])")), InputError,
               "data_offsets holds 1 numbers instead of 2");
  EXPECT_ERROR(parse(of_tensor(R"("data_offsets":[0,1,2])")), InputError, "data_offsets holds 3 numbers");
}

TEST(SafetensorsParse, RefusesMoreDimensionsThanLibTorchTakes) {
  std::string shape = "1";
  for (size_t i = 1; i < kSafetensorsMostDimensions; ++i) shape += ",1";
  const std::string rest = R"(,"dtype":"U8","data_offsets":[0,1])";
  EXPECT_EQ(parse(of_tensor(R"("shape":[)" + shape + "]" + rest)).entries[0].shape.size(), 64);
  EXPECT_ERROR(parse(of_tensor(R"("shape":[)" + shape + ",1]" + rest)), InputError, "more than 64 numbers");
}

TEST(SafetensorsParse, IsNotBroughtDownByDeepNesting) {
  EXPECT_ERROR(parse(R"({"w":)" + std::string(1000000, '[')), InputError,
               "tensor \"w\": its value is a list");
}

}  // namespace
}  // namespace bridle
