/** Frame of every screen: navigation, namespaces, the caller, commands. */

import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { refreshCaller } from "../api/login.ts";
import { caller, endSession, session } from "../api/session.ts";
import { IconButton } from "../components/button.tsx";
import { Icon } from "../components/icons.tsx";
import { effect } from "../lib/signal.ts";
import { now } from "../lib/time.ts";
import { Account } from "./account.tsx";
import { CommandDock, isDockOpen } from "./command-dock.tsx";
import { NamespaceButton } from "./namespace-switcher.tsx";
import { Palette, paletteShortcut } from "./palette.tsx";
import { href, place, steps } from "./router.ts";
import { ScreenHost } from "./screen-host.tsx";
import { SCREENS } from "./screens.ts";

const REFRESH_MS = 5 * 60_000;

export function Shell() {
  const [isNavOpen, setNavOpen] = useState(false);
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  useCallerOfSession();
  useFocusOnHeading();
  useEffect(() => setNavOpen(false), [steps.value]);
  // Before the first paint: a key that is pressed as soon as the page shows is heard.
  useLayoutEffect(() => paletteShortcut(() => setPaletteOpen(true)), []);
  return (
    <div class={isDockOpen.value ? "shell shell-docked" : "shell"}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="topbar">
        <span class="nav-toggle">
          <IconButton icon="menu" label="Navigation" expanded={isNavOpen} onClick={() => setNavOpen(!isNavOpen)} />
        </span>
        <a class="brand" href={href("")}>
          <Icon name="mark" size={18} />
          <span>Sallyport</span>
        </a>
        <NamespaceButton />
        <span class="topbar-space" />
        <button type="button" class="palette-button" onClick={() => setPaletteOpen(true)}>
          <Icon name="search" />
          <span>Go to</span>
          <kbd>Ctrl K</kbd>
        </button>
        <IconButton
          icon="terminal"
          label="Commands of this screen"
          pressed={isDockOpen.value}
          onClick={() => (isDockOpen.value = !isDockOpen.value)}
        />
        <Account />
      </header>
      <Navigation isOpen={isNavOpen} />
      <main class="main" id="main" tabIndex={-1}>
        <ScreenHost />
      </main>
      {isDockOpen.value && <CommandDock />}
      {isPaletteOpen && <Palette onClose={() => setPaletteOpen(false)} />}
    </div>
  );
}

function Navigation({ isOpen }: { readonly isOpen: boolean }) {
  const groups = [...new Set(SCREENS.map(({ group }) => group))];
  return (
    <nav class={isOpen ? "nav nav-open" : "nav"} aria-label="Screens">
      {groups.map((group) => (
        <div key={group} class="nav-group">
          {group && <p class="nav-title">{group}</p>}
          {SCREENS.filter((screen) => screen.group === group).map(({ name, label, icon }) => (
            <a
              key={name}
              class="nav-link"
              href={href(name)}
              aria-current={place.value.screen === name ? "page" : undefined}
            >
              <Icon name={icon} />
              {label}
            </a>
          ))}
        </div>
      ))}
      <div class="nav-foot">
        <a class="nav-link" href="/docs" target="_blank" rel="noreferrer">
          <Icon name="external" />
          API documentation
        </a>
      </div>
    </nav>
  );
}

/** Reads who the caller is, now and then, and ends the session when the token has ended. */
function useCallerOfSession(): void {
  useEffect(() => {
    void refreshCaller();
    const timer = setInterval(() => void refreshCaller(), REFRESH_MS);
    return () => clearInterval(timer);
  }, [session.value]);
  useEffect(
    () =>
      effect(() => {
        const expires = caller.value?.expires ?? null;
        if (expires !== null && expires <= now.value)
          endSession("Your token has ended. Log in again to continue where you were.");
      }),
    [],
  );
}

/**
 * After a step to another screen the focus is on its heading, so that it is read out and Tab goes on from there. A part
 * of the screen that still has the focus, as a row of a tree, keeps it.
 */
function useFocusOnHeading(): void {
  const step = steps.value;
  useEffect(() => {
    if (step === 0) return;
    const main = document.getElementById("main");
    main?.scrollTo(0, 0);
    // The code of the screen may still be on its way.
    let tries = 0;
    const timer = setInterval(() => {
      const focused = document.activeElement;
      const isTaken = focused !== main && main?.contains(focused) === true;
      const heading = document.querySelector<HTMLElement>("[data-heading]");
      if (!isTaken && heading && !document.querySelector("dialog[open]")) heading.focus({ preventScroll: true });
      if (isTaken || document.activeElement === heading || ++tries > 40) clearInterval(timer);
    }, 50);
    return () => clearInterval(timer);
  }, [step]);
}
