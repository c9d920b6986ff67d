// A page that shows the status and the last rounds. It holds no state; the browser asks the API
// with the token that the operator pastes, which is kept for the tab's life only.
#include "admin/internal.h"

const char tern_admin_page[] =
    "<!doctype html><html lang=en><meta charset=utf-8><title>Tern aggregator</title>\n"
    "<style>body{font:15px system-ui;margin:2em auto;max-width:60em}td,th{padding:.2em .8em;"
    "text-align:right}th{border-bottom:1px solid #888}</style>\n"
    "<h1>Tern aggregator</h1><p>Admin token <input id=t type=password size=30> "
    "<span id=e></span></p><pre id=s></pre><table id=r></table>\n"
    "<script>\n"
    "const $=i=>document.getElementById(i);$('t').value=sessionStorage.tern||'';\n"
    "async function get(p){const r=await fetch(p,{headers:{Authorization:'Bearer '+$('t').value}});"
    "if(!r.ok)throw r.status+' '+r.statusText;return r.json()}\n"
    "async function show(){if(!$('t').value)return;sessionStorage.tern=$('t').value;try{\n"
    "const s=await get('/api/v1/status');$('s').textContent=JSON.stringify(s,null,1);\n"
    "const k=['round','state','applied','target','mean_loss','learning_rate','codec_up'];\n"
    "const rows=(await get('/api/v1/rounds?after='+Math.max(0,s.rounds_committed-29))).reverse();"
    "const t=$('r');t.textContent='';\n"
    "const h=t.insertRow();for(const c of k){const d=document.createElement('th');"
    "d.textContent=c;h.append(d)}\n"
    "for(const r of rows){const w=t.insertRow();for(const c of k){const v=r[c];"
    "w.insertCell().textContent=typeof v=='number'&&v%1?v.toFixed(4):v}}\n"
    "$('e').textContent=''}catch(x){$('e').textContent=x}}\n"
    "$('t').onchange=show;setInterval(show,3000);show()\n"
    "</script></html>\n";
