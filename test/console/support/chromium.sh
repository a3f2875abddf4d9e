#!/bin/sh
# Starts the browser `CHROMIUM_PROGRAM` without the pages of its address bar. Each new profile loads two of them into
# processes of their own, which took two thirds of the processor time of a profile (Chromium 156). The browser reads one
# list of features only, and Playwright gives it one.
for argument in "$@"; do
  shift
  case $argument in
  --disable-features=*) argument="$argument,WebUIOmniboxPopup,WebUIOmniboxAimPopup" ;;
  esac
  set -- "$@" "$argument"
done
exec "$CHROMIUM_PROGRAM" "$@"
