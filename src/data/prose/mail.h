// The text of a mail message: its subject and what its author wrote, without headers, quotations, signatures and attachments.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bridle {

// The message as it travelled, with headers, perhaps with mbox's line "From …" before them. Nothing where it has no part in
// text or HTML, or one in an encoding that is neither UTF-8 nor a Western one.
std::optional<std::string> text_of_mail(std::string_view message);

}  // namespace bridle
