/** The commands of the tour: `npm start` prints the first two, README shows all, and the smoke test runs them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

interface Step {
  title: string;
  /** For a shell that has SALLYPORT_ADDR and SALLYPORT_TOKEN. */
  command: string;
}

export const TOUR = "tour.json";

export function readTour(root = "."): Step[] {
  const tour = JSON.parse(readFileSync(join(root, "seeds", TOUR), "utf8")) as { steps: Step[] };
  return tour.steps;
}
