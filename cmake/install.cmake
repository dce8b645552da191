# An installed package: find_package(bridle), target bridle::bridle. tests/consumer proves that it works.
include(CMakePackageConfigHelpers)
install(TARGETS bridle EXPORT bridle_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The program finds the library beside it, wherever both are installed.
set_target_properties(bridle_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS bridle_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/bridle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(PROGRAMS scripts/check_certificate.py DESTINATION ${CMAKE_INSTALL_DATADIR}/bridle)
install(FILES scripts/certificate_files.py DESTINATION ${CMAKE_INSTALL_DATADIR}/bridle)
install(EXPORT bridle_targets NAMESPACE bridle:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/bridle)
configure_package_config_file(cmake/bridleConfig.cmake.in bridleConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/bridle)
write_basic_package_version_file(bridleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/bridleConfig.cmake ${PROJECT_BINARY_DIR}/bridleConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/bridle)
# Beside the modules of Debian's Python; under another prefix PYTHONPATH names the folder. It finds the library of its prefix.
file(GLOB python_package CONFIGURE_DEPENDS python/bridle/*.py)
install(FILES ${python_package} python/bridle/py.typed DESTINATION lib/python3/dist-packages/bridle COMPONENT python)
