/** Light or dark: as the system says, unless the person has chosen. */
import { effect, signal } from "../lib/signal.ts";

export type Theme = "system" | "light" | "dark";

const KEY = "sallyport.theme";

export const theme = signal<Theme>((localStorage.getItem(KEY) as Theme | null) ?? "system");

export function startTheme(): void {
  effect(() => {
    const chosen = theme.value;
    if (chosen === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = chosen;
    localStorage.setItem(KEY, chosen);
  });
}
