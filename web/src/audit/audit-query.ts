/** What a reader asks the audit log for; an empty field is not looked at. */
export interface AuditQuestion {
  actor: string;
  action: string;
  subject: string;
  outcome: string;
}

export const NOTHING_ASKED: AuditQuestion = { actor: "", action: "", subject: "", outcome: "" };

const OUTCOMES = ["done", "refused", "failed"] as const;

type AuditOutcome = (typeof OUTCOMES)[number];

interface AuditQuery {
  actor?: string;
  action?: string;
  subject?: string;
  outcome?: AuditOutcome;
  cursor?: string;
}

/** The question as the server takes it: what is empty is left out. */
export function auditQueryOf(asked: AuditQuestion, cursor: string): AuditQuery {
  const query: AuditQuery = {};
  for (const name of ["actor", "action", "subject"] as const) {
    const value = asked[name].trim();
    if (value) query[name] = value;
  }
  const outcome = OUTCOMES.find((one) => one === asked.outcome);
  if (outcome) query.outcome = outcome;
  if (cursor) query.cursor = cursor;
  return query;
}
