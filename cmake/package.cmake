# Two Debian packages: `scripts/package`, or cpack in a build's folder. Dependencies of the first are what dpkg-shlibdeps finds in
# the program and the library, and NumPy, which the independent checker takes; the second is the Python package over it.
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PACKAGE_NAME bridle)
set(CPACK_PACKAGE_VENDOR Bridle)
set(CPACK_PACKAGE_CONTACT "The Bridle authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train neural networks under a Lipschitz bound and certify it")
set(CPACK_PACKAGE_DESCRIPTION "Bridle trains transformers and MLPs whose Lipschitz constant is provably at most a bound
that you name: changing the input by a little moves the output by at most the bound
times that. It writes a certificate that an independent program proves again from the
weights alone. The package holds the command line, the C++ library with its headers,
recipes, manual pages and shell completions.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME bridle)
set(CPACK_COMPONENT_UNSPECIFIED_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-bridle)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "bridle (= ${PROJECT_VERSION}), python3, python3-torch")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/python3-bridle/postinst
    ${CMAKE_CURRENT_LIST_DIR}/python3-bridle/prerm)
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "")
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "This is the Python package over the library: constraints that are enforced, proved and repaired after every
step of a PyTorch optimizer, Muon with a known update norm, and models with a certified
Lipschitz bound as modules of PyTorch.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_DEPENDS "python3, python3-numpy")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_RECOMMENDS "libopenblas0-openmp")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SUGGESTS "libtorch-dev, npm, python3-bridle")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # tests are no part of it
include(CPack)
