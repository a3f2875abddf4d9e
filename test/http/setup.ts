/** Runs before each file. Modules that several files import are loaded once, and their own hooks would hold for one file. */
import { afterEach } from "vitest";
import { cleanUp } from "./after-test.ts";

afterEach(cleanUp);
