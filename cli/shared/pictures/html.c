/* Style and script are constants, so nothing of a run gets into them. Colours are variables with a set for
   light and one for dark displays; print uses the light ones. The colours of series have a contrast of at
   least 3 to 1 against their background.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/pictures/html.h"

#include <math.h>
#include <string.h>

#include "cli/shared/output/character_out.h"

static const char *const style[] = {
    ":root{--bg:#fff;--panel:#f6f8fa;--text:#1f2933;--muted:#56626d;--grid:#e1e7ec;--line:#8a97a3;",
    "--bad:#b3261e;--heat:31 111 180;--s0:#1f6fb4;--s1:#c4500a;--s2:#1d7f4c;--s3:#7a4fbf;--s4:#c02644;",
    "--s5:#0f7f8c;--s6:#8a5a2b;--s7:#5a6472;color-scheme:light dark}",
    "@media screen and (prefers-color-scheme:dark){:root{--bg:#14181c;--panel:#1c2227;--text:#e6eaee;",
    "--muted:#a3afba;--grid:#2c353d;--line:#75828e;--bad:#ff8a80;--heat:108 178 "
    "240;--s0:#6cb2f0;--s1:#f59e52;",
    "--s2:#63c98d;--s3:#b79bf0;--s4:#f27d92;--s5:#4cc6d3;--s6:#c99a6b;--s7:#aab4bf}}",
    "*{box-sizing:border-box}body{margin:0 auto;max-width:1440px;padding:1rem;background:var(--bg);",
    "color:var(--text);font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Helvetica,Arial,sans-serif}",
    "h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.2rem;margin:2rem 0 "
    ".6rem}h3{font-size:1rem;margin:1rem 0 .4rem}",
    "p,li{max-width:75ch}.muted{color:var(--muted)}.bad{color:var(--bad)}",
    ".figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:1rem}",
    "figure{margin:0;padding:.7rem;background:var(--panel);border-radius:8px;min-width:0}",
    "figcaption{font-weight:600;margin-bottom:.3rem}.frame{position:relative}",
    ".frame svg{display:block;width:100%;height:auto;touch-action:pan-y}",
    "svg text{font-size:12px;fill:var(--muted);text-anchor:middle}svg .tick.y{text-anchor:end}",
    "svg "
    ".axis{font-size:13px;fill:var(--text)}.grid{stroke:var(--grid)}.line,.rule{stroke:var(--line);fill:"
    "none}",
    ".rule{visibility:hidden}svg g path{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}",
    "svg g circle{fill:var(--c)}svg g.bars path{fill:var(--c);stroke:none}",
    ".s0{--c:var(--s0)}.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}.s4{--c:var(--s4)}.s5{--c:var(--"
    "s5)}",
    ".s6{--c:var(--s6)}.s7{--c:var(--s7)}svg .d1 path{stroke-dasharray:7 3}svg .d2 path{stroke-dasharray:2 "
    "3}",
    "svg .d3 path{stroke-dasharray:9 3 2 3}",
    ".legend{display:flex;flex-wrap:wrap;gap:.1rem .9rem;list-style:none;margin:.2rem 0 "
    ".4rem;padding:0;font-size:13px}",
    "svg g.dim{opacity:.08}.marks li{cursor:default}.task{margin-bottom:1rem}",
    ".folded{grid-column:1/-1}.folded>summary{font-size:inherit;color:inherit;margin-bottom:.5rem}",
    ".legend li{overflow-wrap:anywhere}.legend svg{width:22px;height:10px;margin-right:.35rem;flex:none}",
    ".tip{position:absolute;top:0;pointer-events:none;background:var(--bg);border:1px solid var(--line);",
    "border-radius:6px;padding:.25rem .5rem;font-size:12.5px;line-height:1.35;max-width:70%;z-index:1}",
    ".tip[hidden]{display:none}.tip div{overflow-wrap:anywhere}.tip b{color:var(--c)}",
    ".scroll{overflow-x:auto;max-width:100%}details .scroll{max-height:22rem;overflow:auto}",
    "summary{cursor:pointer;font-size:13px;color:var(--muted)}",
    "table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums}",
    "caption{text-align:left;font-weight:600;padding:.2rem 0}",
    "th,td{padding:.25rem .5rem;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}",
    "th{font-weight:600}tbody th,.t{text-align:left}td.w{white-space:normal;min-width:11rem;text-align:left}",
    ".heat td,.heat th{padding:.15rem .4rem}.heat .z{color:var(--muted)}.heat "
    "td{text-align:center;background:rgb(var(--heat)/calc(var(--v)*.6))}.heat th{text-align:center}.named "
    "tbody "
    "th{text-align:left;white-space:normal;min-width:8rem}",
    "pre{background:var(--panel);border-radius:8px;padding:.7rem;white-space:pre-wrap;overflow-wrap:"
    "anywhere;",
    "font-size:13px}a{color:var(--s0)}nav a{margin-right:1rem}:focus-visible{outline:2px solid var(--s0)}",
    ".many th,.many td{font-size:11px;padding:.1rem .2rem}",
    ".sorted th[title]{cursor:pointer}.sorted th[aria-sort=ascending]::after{content:\" \\2191\"}",
    ".sorted th[aria-sort=descending]::after{content:\" \\2193\"}",
    ".runs table{font-size:12.5px}.runs th,.runs td{padding:.25rem .35rem}",
    ".runs th,.runs td.t{white-space:normal;overflow-wrap:anywhere}.runs td.t,.runs tbody "
    "th{min-width:5.5rem}",
    ".runs td.w{min-width:6rem}.runs thead th{overflow-wrap:normal}",
    "@media screen and (max-width:500px){body{padding:.6rem}figure{padding:.4rem}svg text,svg "
    ".axis{font-size:14px}}",
    "@media print{body{max-width:none;padding:0;font-size:11px}nav,details,.tip{display:none!important}",
    "figure,tr,pre{break-inside:avoid}h2,h3{break-after:avoid}.figures{grid-template-columns:1fr 1fr}",
    ".scroll{overflow:visible}th,td{white-space:normal;padding:.1rem .3rem}table{font-size:9.5px}",
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}",
};

/* The same for a plot alone, with the light colours and without variables, which some viewers lack. */
static const char *const plot_style[] = {
    "text{font:12px system-ui,-apple-system,Helvetica,Arial,sans-serif;fill:#56626d;text-anchor:middle}",
    ".tick.y{text-anchor:end}.axis{font-size:13px;fill:#1f2933}.name{text-anchor:start;fill:#1f2933}",
    ".grid{stroke:#e1e7ec}.line{stroke:#8a97a3;fill:none}",
    "g[class] path{fill:none;stroke-width:2;stroke-linejoin:round}g.bars path{stroke-width:0}",
    ".s0 path{stroke:#1f6fb4}.s0 circle,.bars.s0 path{fill:#1f6fb4}",
    ".s1 path{stroke:#c4500a}.s1 circle,.bars.s1 path{fill:#c4500a}",
    ".s2 path{stroke:#1d7f4c}.s2 circle,.bars.s2 path{fill:#1d7f4c}",
    ".s3 path{stroke:#7a4fbf}.s3 circle,.bars.s3 path{fill:#7a4fbf}",
    ".s4 path{stroke:#c02644}.s4 circle,.bars.s4 path{fill:#c02644}",
    ".s5 path{stroke:#0f7f8c}.s5 circle,.bars.s5 path{fill:#0f7f8c}",
    ".s6 path{stroke:#8a5a2b}.s6 circle,.bars.s6 path{fill:#8a5a2b}",
    ".s7 path{stroke:#5a6472}.s7 circle,.bars.s7 path{fill:#5a6472}",
    ".d1 path{stroke-dasharray:7 3}.d2 path{stroke-dasharray:2 3}.d3 path{stroke-dasharray:9 3 2 3}",
};

/* Shows the values nearest to the pointer, which it reads from the table behind the picture; dims all curves
   but those of one entry of a legend; sorts tables by a column, numbers by value, "-" last, a second time
   downwards. The page reads without it. */
static const char *const script[] = {
    "document.querySelectorAll('figure.plot').forEach(f=>{",
    "const svg=f.querySelector('svg'),tip=f.querySelector('.tip'),rule=svg.querySelector('.rule');",
    "const [lo,hi,log,l,r]=svg.dataset.x.split(' ').map(Number),s=log?Math.log:v=>v;",
    "const at=x=>l+(s(x)-s(lo))/(s(hi)-s(lo))*(r-l);let all=null;",
    "const "
    "load=()=>[...f.querySelectorAll('tbody')].map(b=>({name:b.rows[0].cells[0].textContent.trim(),",
    "look:b.className,",
    "points:[...b.rows].slice(1).map(w=>[+w.cells[0].textContent,w.cells[1].textContent.trim()])",
    ".filter(p=>p[1]!='-'&&isFinite(at(p[0])))}));",
    "const show=e=>{all=all||load();const "
    "box=svg.getBoundingClientRect(),px=(e.clientX-box.left)*440/box.width;",
    "let best=null;for(const a of all)for(const p of a.points){const d=Math.abs(at(p[0])-px);",
    "if(best===null||d<best.d)best={d,x:p[0]}}if(best===null)return;",
    "tip.replaceChildren();const "
    "head=document.createElement('div');head.textContent=best.x;tip.append(head);",
    "let n=0;for(const a of all){let near=null;for(const p of a.points){const "
    "d=Math.abs(at(p[0])-at(best.x));",
    "if(d<12&&(near===null||d<near.d))near={d,y:p[1]}}if(near===null||++n>12)continue;",
    "const row=document.createElement('div'),b=document.createElement('b');row.className=a.look;",
    "b.textContent=near.y;row.append(b,' '+a.name);tip.append(row)}",
    "const x=at(best.x);rule.setAttribute('transform','translate('+x+' 0)');rule.style.visibility='visible';",
    "tip.hidden=false;if(x>(l+r)/2){tip.style.left='auto';tip.style.right=(440-x)/4.4+2+'%'}",
    "else{tip.style.right='auto';tip.style.left=x/4.4+2+'%'}};",
    "const hide=()=>{tip.hidden=true;rule.style.visibility='hidden'};",
    "svg.addEventListener('pointermove',show);svg.addEventListener('pointerdown',show);",
    "svg.addEventListener('pointerleave',hide)});",
    "document.querySelectorAll('.marks li').forEach(li=>{const mark=on=>()=>",
    "li.closest('.task').querySelectorAll('figure g[data-k]').forEach(g=>",
    "g.classList.toggle('dim',on&&g.dataset.k!=li.dataset.k));",
    "li.addEventListener('pointerenter',mark(true));li.addEventListener('focus',mark(true));",
    "li.addEventListener('pointerleave',mark(false));li.addEventListener('blur',mark(false))});",
    "document.querySelectorAll('table.sorted').forEach(t=>{const heads=[...t.tHead.rows[0].cells],",
    "body=t.tBodies[0];heads.forEach((h,i)=>{h.tabIndex=0;h.title='sort';",
    "const value=r=>{const s=r.cells[i].textContent.trim();return [s,s===''||s==='-',parseFloat(s)]};",
    "const up=(a,b)=>isFinite(a[2])&&isFinite(b[2])?a[2]-b[2]:a[0].localeCompare(b[0],'en',{numeric:true});",
    "const sort=()=>{const down=h.getAttribute('aria-sort')==='ascending';",
    "heads.forEach(o=>o.removeAttribute('aria-sort'));",
    "h.setAttribute('aria-sort',down?'descending':'ascending');",
    "body.append(...[...body.rows].map(r=>[value(r),r]).sort(([a],[b])=>a[1]-b[1]||",
    "(down?up(b,a):up(a,b))).map(p=>p[1]))};h.addEventListener('click',sort);",
    "h.addEventListener('keydown',e=>{if(e.key==='Enter'||e.key===' '){e.preventDefault();sort()}})})})",
};

/* ---- text ---------------------------------------------------------------------------------------------- */

void html_text(FILE *page, const char *text)
{
    const char *end = text + strlen(text);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        size_t size = character_size((const char *)at, (size_t)(end - (const char *)at));
        const char *entity = *at == '&'    ? "&amp;"
                             : *at == '<'  ? "&lt;"
                             : *at == '>'  ? "&gt;"
                             : *at == '"'  ? "&quot;"
                             : *at == '\'' ? "&#39;"
                                           : NULL;
        if (size == 0 || *at == 0x7f || (*at < 0x20 && *at != '\t' && *at != '\n'))
            entity = CHARACTER_REPLACED;
        if (entity != NULL)
            fputs(entity, page);
        else
            fwrite(at, 1, size, page);
        at += size == 0 ? 1 : size;
    }
}

void html_number(FILE *page, double number)
{
    if (isfinite(number))
        fprintf(page, "%.6g", number);
    else
        fputc('-', page);
}

void html_axis(FILE *page, const char *name, const char *unit)
{
    html_text(page, name);
    fputs(" (", page);
    html_text(page, unit);
    fputc(')', page);
}

/* ---- the frame ----------------------------------------------------------------------------------------- */

static void write_lines(FILE *page, const char *const *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(page, "%s\n", lines[i]);
}

void html_plot_style(FILE *file)
{
    write_lines(file, plot_style, sizeof plot_style / sizeof *plot_style);
}

void html_begin(FILE *page, const char *title, const char *subtitle)
{
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'; "
          "script-src 'unsafe-inline'\">\n<title>",
          page);
    html_text(page, title);
    fputs("</title>\n<style>\n", page);
    write_lines(page, style, sizeof style / sizeof *style);
    fputs("</style></head><body>\n<header><h1>", page);
    html_text(page, title);
    fputs("</h1><p class=\"muted\">", page);
    html_text(page, subtitle);
    fputs("</p></header>\n<main>\n", page);
}

void html_end(FILE *page)
{
    fputs("</main>\n<script>\n", page);
    write_lines(page, script, sizeof script / sizeof *script);
    fputs("</script></body></html>\n", page);
}

void html_section(FILE *page, const char *id, const char *heading)
{
    fprintf(page, "<section aria-labelledby=\"%s\"><h2 id=\"%s\">", id, id);
    html_text(page, heading);
    fputs("</h2>\n", page);
}

void html_section_end(FILE *page)
{
    fputs("</section>\n", page);
}

static void begin_table(FILE *page, const char *label, const char *tag)
{
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", page);
    html_text(page, label);
    fprintf(page, "\">%s", tag);
}

void html_table(FILE *page, const char *label)
{
    begin_table(page, label, "<table>");
}

void html_sorted_table(FILE *page, const char *label)
{
    begin_table(page, label, "<table class=\"sorted\">");
}

void html_table_end(FILE *page)
{
    fputs("</table></div>\n", page);
}
