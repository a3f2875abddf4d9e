import * as z from "zod";
import { data, group } from "../../src/openapi/operation.ts";
import { greetingExamples } from "./examples.ts";

export const greetings = group(
  "System",
  { language: "The language." },
  {
    "POST /sys/greetings/:language": {
      id: "greet",
      summary: "Greet",
      answers: data("The greeting.", z.object({ text: z.string() })),
    },
  },
  greetingExamples,
);
