import { flawsOfRule, type RefRule } from '../../domain/ref-rules.ts'
import { type Html, html } from '../text/html.ts'

/** Renders what is wrong with a rule of an earlier version. */
export function ruleMarks(rule: RefRule): Html[] {
  return flawsOfRule(rule).map((flaw) => html` <span class="faint">(${flaw})</span>`)
}
