# What goes to share/: recipes, schemas, completions for three shells and manual pages. A build has the same
# beside its program, so that `bridle train quickstart` works there too.
set(share ${PROJECT_BINARY_DIR}/share)
file(MAKE_DIRECTORY ${share}/bridle)
foreach(part recipes schemas)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${part} ${share}/bridle/${part} SYMBOLIC)
  install(DIRECTORY ${part} DESTINATION ${CMAKE_INSTALL_DATADIR}/bridle)
endforeach()
foreach(part check_certificate.py certificate_files.py)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/scripts/${part} ${share}/bridle/${part} SYMBOLIC)
endforeach()

# From the command line itself: `bridle generate` reads the verbs, flags and texts that --help prints.
set(generated_share bash-completion zsh fish man)
set(generated_stamp ${PROJECT_BINARY_DIR}/share.stamp)
list(TRANSFORM generated_share PREPEND ${share}/ OUTPUT_VARIABLE generated_folders)
add_custom_command(OUTPUT ${generated_stamp}
                   COMMAND ${CMAKE_COMMAND} -E rm -rf ${generated_folders}
                   COMMAND bridle_cli generate ${share}
                   COMMAND ${CMAKE_COMMAND} -E touch ${generated_stamp}
                   DEPENDS bridle_cli COMMENT "Writing completions and manual pages" VERBATIM)
add_custom_target(bridle_share ALL DEPENDS ${generated_stamp})
foreach(part ${generated_share})
  install(DIRECTORY ${share}/${part} DESTINATION ${CMAKE_INSTALL_DATADIR})
endforeach()
