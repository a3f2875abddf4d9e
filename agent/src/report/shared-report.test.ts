import { expect, it, vi } from "vitest";
import { SharedReport } from "./shared-report.ts";

it("reports a single operation without a wait", async () => {
  const report = vi.fn(async () => {});
  const shared = new SharedReport(report, () => 1);
  await shared.ended();
  await shared.ended();
  expect(report).toHaveBeenCalledTimes(2);
});

it("reports once for operations in flight at the same time", async () => {
  const report = vi.fn(async () => {});
  const shared = new SharedReport(report, () => 3);
  await Promise.all([shared.ended(), shared.ended(), shared.ended()]);
  expect(report).toHaveBeenCalledOnce();
});

it("reports also while another operation goes on", async () => {
  const report = vi.fn(async () => {});
  await new SharedReport(report, () => 2).ended();
  expect(report).toHaveBeenCalledOnce();
});

it("reports again after a failure", async () => {
  const report = vi.fn().mockRejectedValueOnce(new Error("unreadable")).mockResolvedValue(undefined);
  const shared = new SharedReport(report, () => 1);
  await expect(shared.ended()).rejects.toThrow("unreadable");
  await shared.ended();
});
