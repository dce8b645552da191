# cmake -DNPM=… -DNODE=… -DWEB=… -DOUT=… -P build_page.cmake: `npm ci` where the packages are not those of the lock file, then the
# build. Where npm cannot get its packages a warning says so and no page is left.
file(LOCK ${WEB} DIRECTORY GUARD PROCESS)  # another build's folder may be at it
set(stamp ${WEB}/node_modules/.bridle-lock)
file(SHA256 ${WEB}/package-lock.json wanted)
set(present "")
if(EXISTS ${stamp})
  file(READ ${stamp} present)
endif()
if(NOT present STREQUAL wanted)
  execute_process(COMMAND ${NPM} ci --no-audit --no-fund --loglevel=error WORKING_DIRECTORY ${WEB} RESULT_VARIABLE failed
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(WARNING "npm ci failed, so that the page of `bridle report` is not built:\n${output}")
    return()
  endif()
  file(WRITE ${stamp} ${wanted})
endif()
execute_process(COMMAND ${NODE} ${WEB}/build.mjs ${OUT} COMMAND_ERROR_IS_FATAL ANY)
