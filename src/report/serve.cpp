// GET /FOLDER/ is the page of the runs in DIR/FOLDER, GET /FOLDER/data.json their data; the page asks for it twice a second, with the
// tag of what it has.
#include "bridle/serve.h"

#include <fmt/format.h>
#include <httplib.h>

#include "bridle/error.h"
#include "report/live_folder.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

void refuse(httplib::Response& response, int status, const std::string& why) {
  response.status = status;
  response.set_content(why + "\n", "text/plain; charset=utf-8");
}

// "localhost:8420" → "localhost"; "[::1]:8420" → "[::1]".
std::string without_port(const std::string& host) {
  const size_t colon = host.rfind(':');
  return colon == std::string::npos || host.ends_with(']') ? host : host.substr(0, colon);
}

}  // namespace

struct ReportServer::State {
  LiveFolder folder;
  std::string page;
  ServeOptions options;
  httplib::Server server;
  int port = 0;

  bool is_ours(const httplib::Request& request) const {
    const std::string host = without_port(request.get_header_value("Host"));
    return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == options.host;
  }

  // True: the answer is a refusal.
  bool refused(const httplib::Request& request, httplib::Response& response) const {
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Cache-Control", "no-store");
    if (!is_ours(request)) {
      refuse(response, 403, "the Host header must name this machine");
    } else if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Allow", "GET, HEAD");
      refuse(response, 405, "only GET and HEAD are answered");
    } else {
      return false;
    }
    return true;
  }

  void answer(const httplib::Request& request, httplib::Response& response) {
    const size_t slash = request.path.rfind('/');
    const std::string name = request.path.substr(slash + 1);
    const auto wanted = folder.inside(request.path.substr(0, slash + 1));
    if (!wanted || (!name.empty() && name != "data.json"))
      return refuse(response, 404, "there is nothing here");
    const std::vector<fs::path> runs = LiveFolder::runs_in(*wanted);
    if (name.empty())
      return response.set_content(report_page(page, folder.data_of(*wanted, runs)),
                                  "text/html; charset=utf-8");
    const std::string tag = LiveFolder::tag_of(runs);
    response.set_header("ETag", tag);
    if (request.get_header_value("If-None-Match") == tag) {
      response.status = 304;
    } else {
      response.set_content(folder.data_of(*wanted, runs), "application/json");
    }
  }

  void route() {
    server.set_pre_routing_handler([this](const auto& request, auto& response) {
      return refused(request, response) ? httplib::Server::HandlerResponse::Handled
                                        : httplib::Server::HandlerResponse::Unhandled;
    });
    server.Get(".*", [this](const auto& request, auto& response) {
      try {
        answer(request, response);
      } catch (const Error& error) {
        refuse(response, 500, error.what());
      }
    });
  }

  void bind() {
    const bool any = options.port == 0;
    port = any ? server.bind_to_any_port(options.host) : options.port;
    if (port > 0 && (any || server.bind_to_port(options.host, port))) return;
    throw InputError(
        "serve", fmt::format("{}:{} cannot be bound to; choose another --port", options.host, options.port));
  }
};

ReportServer::ReportServer(const fs::path& folder, std::string page, const ServeOptions& options)
    : state_(new State{LiveFolder(folder), std::move(page), options, {}, 0}) {
  state_->route();
  state_->bind();
}

ReportServer::~ReportServer() = default;

int ReportServer::port() const { return state_->port; }

void ReportServer::run() {
  if (!state_->server.listen_after_bind()) throw InputError("serve", "the server could not listen");
}

void ReportServer::stop() { state_->server.stop(); }

}  // namespace bridle
