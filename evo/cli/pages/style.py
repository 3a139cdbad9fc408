"""The page's look and its one script. Nothing is loaded from anywhere; colours follow the reader's light or dark."""

from __future__ import annotations

from evo.cli.pages.svg import SHAPES, STYLE

CSS = (
    """
:root{color-scheme:light dark;--paper:#fff;--ink:#1c2430;--soft:#566170;--grid:#dfe4ea;--panel:#f5f7f9;--link:#0b5394;
--edge:#0002;--good:#0b6e4f;--bad:#a8480f;--add:#dcf4e6;--del:#fde7dc;--heat:232,110,20;--k:#7a3d8f;--t:#0b5fa5;--s:#2f6a1f;
--n:#9a3412;--c:#5d6875;--p:#7a5b00}
@media(prefers-color-scheme:dark){:root{--paper:#14181e;--ink:#e8ecf1;--soft:#a9b4c2;--grid:#313a46;--panel:#1c222b;
--link:#8cc4ff;--edge:#fff2;--good:#5fd3a5;--bad:#f2a270;--add:#12382a;--del:#44241a;--heat:240,140,50;--k:#d3a3e6;--t:#7cb9f2;
--s:#93d17f;--n:#f2a270;--c:#98a4b3;--p:#e0c65c}}
*{box-sizing:border-box}html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
header,main,footer,nav{max-width:76rem;margin:0 auto;padding:0 1.25rem}header{padding-top:1.5rem}
h1{font-size:1.7rem;line-height:1.2;margin:.2rem 0 .6rem}h2{font-size:1.3rem;margin:2.6rem 0 .6rem;padding-top:.8rem;
border-top:1px solid var(--grid)}h3{font-size:1.05rem;margin:1.6rem 0 .4rem}h4{font-size:1rem;margin:1rem 0 .3rem}
p{margin:.4rem 0 .8rem;max-width:52rem}h1,h2,h3,h4,p,li,dd,summary,caption,td.long{overflow-wrap:anywhere}
td{overflow-wrap:break-word}details td{overflow-wrap:anywhere}
.soft,figcaption{color:var(--soft);font-size:.92rem}a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:2px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:1rem;background:var(--paper);padding:.5rem 1rem;z-index:2}
nav ul{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;list-style:none;padding:0;margin:.5rem 0}
nav a{display:inline-block;padding:.25rem 0}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.8rem;margin:1rem 0;padding:0}
.facts div{background:var(--panel);padding:.7rem .9rem;border-radius:6px}.facts dt{color:var(--soft);font-size:.85rem}
.facts dd{margin:0;font-size:1.25rem;font-variant-numeric:tabular-nums}
figure{margin:1rem 0}.wide{overflow-x:auto;max-width:100%;
background:linear-gradient(90deg,var(--paper) 40%,transparent) 0 0/2rem 100% no-repeat local,
linear-gradient(270deg,var(--paper) 40%,transparent) 100% 0/2rem 100% no-repeat local,
linear-gradient(90deg,var(--edge),transparent) 0 0/.7rem 100% no-repeat scroll,
linear-gradient(270deg,var(--edge),transparent) 100% 0/.7rem 100% no-repeat scroll}
figure svg{display:block;width:100%;min-width:38rem;
max-width:60rem;height:auto}
table{border-collapse:collapse;font-size:.9rem;width:100%}caption{text-align:left;color:var(--soft);padding:.3rem 0}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--grid)}
th{font-weight:600}th[scope=row]{white-space:nowrap}.num{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td code,.id{overflow-wrap:normal;white-space:nowrap}td.long{min-width:11rem}
code,.id,.diff td,.heat td,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.84rem}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad)}
details{border:1px solid var(--grid);border-radius:6px;margin:.6rem 0;padding:0 .8rem}summary{cursor:pointer;
padding:.55rem 0}details[open]{padding-bottom:.8rem}
ol.chain{list-style:none;padding:0}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:.3rem 0;font-size:.9rem}
.legend b{display:inline-block;width:.8rem;height:.8rem;border-radius:50%;margin-right:.4rem}
.l0{background:var(--c0)}.l1{background:var(--c1)}.l2{background:var(--c2)}.l3{background:var(--c3)}
.l4{background:var(--c4)}.l5{background:var(--c5)}
.legend{--c0:#0b5fa5;--c1:#a8480f;--c2:#3d7a2a;--c3:#7a3d8f;--c4:#7d6200;--c5:#555f6b}
@media(prefers-color-scheme:dark){.legend{--c0:#7cb9f2;--c1:#f2a270;--c2:#93d17f;--c3:#d3a3e6;--c4:#e0c65c;
--c5:#b4bdc8}}
form{display:flex;flex-wrap:wrap;gap:.6rem 1.2rem;align-items:end;margin:.6rem 0}form[hidden]{display:none}
input[type=search]{font:inherit;padding:.35rem .5rem;border:1px solid var(--soft);border-radius:4px;max-width:100%;
background:var(--paper);color:var(--ink)}label{display:inline-flex;gap:.4rem;align-items:center;flex-wrap:wrap}
.diff,.heat{table-layout:fixed}.diff td,.heat td,.diff th,.heat th{border:0;padding:0 .5rem;line-height:1.45}
.diff td{padding-left:1rem;white-space:pre-wrap;overflow-wrap:anywhere}.diff th:nth-child(odd),.diff .n{width:3.2rem}
.diff .n,.heat .n{text-align:right;color:var(--soft);user-select:none}.diff del,.diff ins{text-decoration:none}
.diff .d{background:var(--del)}.diff .a{background:var(--add)}.diff .e{background:var(--panel)}
.diff .d::before{content:"-";position:absolute;left:.25rem}
.diff .a::before{content:"+";position:absolute;left:.25rem}.diff .d,.diff .a{position:relative}
.gap td{text-align:center;color:var(--soft)}
.heat{min-width:36rem}.heat td{white-space:pre-wrap;overflow-wrap:anywhere}.heat td.n{white-space:nowrap}
.heat th:nth-child(1){width:3rem}.heat th:nth-child(2){width:6.4rem}.heat th:nth-child(4){width:15rem}
.now{white-space:nowrap}
i{font-style:normal}.k{color:var(--k)}.t{color:var(--t)}.s{color:var(--s)}i.n{color:var(--n)}.c{color:var(--c)}
.p{color:var(--p)}
footer{padding:2rem 1.25rem;color:var(--soft);font-size:.9rem}
@media(max-width:44rem){header,main,footer,nav{padding-left:.9rem;padding-right:.9rem}h1{font-size:1.4rem}
.diff,.diff tbody{display:block}.diff thead{display:none}.diff tr{display:grid;grid-template-columns:2.9rem 1fr}
.diff caption{display:block}.diff .e,.diff .r{display:none}.gap td{grid-column:1/-1}.diff td{padding:0 .3rem 0 1rem}
.diff .n{padding:0 .2rem 0 0}
.stack thead{position:absolute;left:-99rem}.stack,.stack tbody,.stack tr,.stack caption{display:block}
.stack td{overflow-wrap:anywhere}
.stack tr{border-bottom:1px solid var(--grid);padding:.4rem 0}
.stack td{display:inline-block;border:0;padding:.05rem .9rem .05rem 0;text-align:left}
.stack td.long{display:block;min-width:0}.stack td:empty{display:none}
.stack td[data-l]::before{content:attr(data-l) " ";color:var(--soft)}}
@media print{nav,form,.skip{display:none}}
@media(prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
""".strip()
    + STYLE.strip()
    + SHAPES.strip()
)

SCRIPT = """
(function(){"use strict";var f=document.getElementById("filter"),t=document.getElementById("trial-rows");
if(!f||!t)return;f.hidden=false;var q=document.getElementById("filter-text"),k=document.getElementById("filter-kept"),
o=document.getElementById("filter-count"),r=Array.prototype.slice.call(t.rows),
w=r.map(function(x){return x.textContent.toLowerCase()});
function show(){var n=0,s=q.value.toLowerCase().trim();r.forEach(function(x,i){
var on=(!s||w[i].indexOf(s)>=0)&&(!k.checked||x.dataset.kept==="1");x.hidden=!on;if(on)n++});
o.textContent=n+" of "+r.length+" trials shown"}
f.addEventListener("submit",function(e){e.preventDefault()});q.addEventListener("input",show);
k.addEventListener("change",show);show()})();
""".strip()
