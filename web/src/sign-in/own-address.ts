/**
 * Whether an address leads to a page of this console.
 *
 * A link to the page to sign in names where to go on; it must not lead a reader elsewhere.
 */
export function isOwnAddress(address: unknown): address is string {
  return typeof address === "string" && /^\/(?![/\\])/.test(address);
}
