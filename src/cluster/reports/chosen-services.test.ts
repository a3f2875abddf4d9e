import { expect, it } from "vitest";
import { choiceOf, firstOf, rankOf } from "./chosen-services.ts";

const services = ["abc001", "abc002", "abc003"].map((ID) => ({ ID, ServiceName: "s1" }));

// The orders of upstream's own test (nomad/service_registration_endpoint_test.go).
it.each([
  ["1|aaa", ["abc002"]],
  ["2|aaa", ["abc002", "abc003"]],
  ["3|aaa", ["abc002", "abc003", "abc001"]],
  ["9|bbb", ["abc001", "abc002", "abc003"]],
  ["3|ccc", ["abc002", "abc003", "abc001"]],
  ["0|aaa", []],
])("%s chooses %j", (given, ids) => {
  const choice = choiceOf(given);
  const ranked = services.map((service) => ({ rank: rankOf(service, choice.key), service }));
  expect(firstOf(ranked, choice).map(({ service }) => service["ID"])).toEqual(ids);
});

it.each(["", "1", "1|", "|abc", "a|abc", "-1|abc", "1001|abc"])("%j is refused", (given) => {
  expect(() => choiceOf(given)).toThrow("failed to choose services");
});
