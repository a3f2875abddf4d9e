import * as z from "zod";
import { data, group, noContent } from "../../openapi/operation.ts";
import { keys } from "../../wire/shapes.ts";
import { cubbyholeExamples } from "./examples.ts";

export const cubbyhole = group(
  "Cubbyhole",
  { path: "A path of the caller's choice, at most 512 characters." },
  {
    "LIST /cubbyhole": {
      id: "listCubbyholeAtRoot",
      summary: "List the cubbyhole of the caller's token",
      answers: data("Names.", keys),
    },
    "LIST /cubbyhole/:path+": {
      id: "listCubbyhole",
      summary: "List a folder in the cubbyhole of the caller's token",
      path: { path: "The folder." },
      answers: data("Names.", keys),
    },
    "GET /cubbyhole/:path+": {
      id: "readCubbyhole",
      summary: "Read from the cubbyhole of the caller's token",
      answers: data("The object as written.", z.record(z.string(), z.unknown())),
    },
    "POST /cubbyhole/:path+": {
      id: "writeCubbyhole",
      summary: "Write to the cubbyhole of the caller's token",
      description:
        "The whole body is stored: any JSON object that is not empty. It replaces the earlier one, and is deleted with the token.",
      body: { fields: {} },
      answers: noContent,
    },
    "DELETE /cubbyhole/:path+": {
      id: "deleteCubbyhole",
      summary: "Delete from the cubbyhole of the caller's token",
      answers: noContent,
    },
  },
  cubbyholeExamples,
);
