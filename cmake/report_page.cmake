# The page of `bridle report`, one HTML file built from web/ with npm: share/bridle/report.html in the build's folder and where it is
# installed. Without npm, or without its packages, all else is built and `bridle report` says what is missing.
set(report_page ${PROJECT_BINARY_DIR}/share/bridle/report.html)
install(FILES ${report_page} DESTINATION ${CMAKE_INSTALL_DATADIR}/bridle OPTIONAL)
find_program(NPM npm)
find_program(NODE NAMES node nodejs)
if(NOT NPM OR NOT NODE)
  message(STATUS "npm or Node.js was not found: the page of `bridle report` is not built")
  return()
endif()
file(GLOB page_sources CONFIGURE_DEPENDS web/src/*)
add_custom_command(OUTPUT ${report_page}
                   COMMAND ${CMAKE_COMMAND} -DNPM=${NPM} -DNODE=${NODE} -DWEB=${PROJECT_SOURCE_DIR}/web -DOUT=${report_page}
                           -P ${CMAKE_CURRENT_LIST_DIR}/build_page.cmake
                   DEPENDS ${page_sources} web/build.mjs web/package.json web/package-lock.json
                           ${CMAKE_CURRENT_LIST_DIR}/build_page.cmake
                   COMMENT "Building the report's page" VERBATIM)
add_custom_target(report_page ALL DEPENDS ${report_page})
